"""What the shell offers for a word that is not finished: names from the registry, without PyTorch."""

import os
import subprocess
import sys

import pytest

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.families import FAMILIES, METHOD, UPLOAD_CODEC, model_names

COMPLETE = """
import sys
from fedtrip.cli import main
try:
    main()
except SystemExit:
    pass
heavy = {"torch", "numpy", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


def offered(*words, last=""):
    """The words that bash would offer after `fedtrip WORDS… LAST`."""
    typed = ["fedtrip", *words, last]
    environment = {
        **os.environ,
        "_FEDTRIP_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": str(len(typed) - 1),
    }
    ended = subprocess.run(
        [sys.executable, "-c", COMPLETE], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


@pytest.mark.parametrize("field", sorted(set(FAMILIES) - {"method"}))
def test_the_rules_of_every_family(field):
    shown = offered("run", f"--{field.replace('_', '-')}")
    assert [word.removesuffix(":") for word in shown] == FAMILIES[field].names()


def test_a_rule_that_needs_a_parameter_ends_with_a_colon():
    assert offered("run", "--upload-codec", last="to") == ["topk:"]
    assert offered("compare", "--upload-codec", last="in") == ["int", "int4", "int8"]
    assert UPLOAD_CODEC.forms() == [
        "none", "eden:BITS", "int:BITS", "int4", "int8", "qsgd:LEVELS", "randk:SHARE", "sign", "topk:SHARE",
    ]  # fmt: skip


def test_methods_data_sets_and_models():
    assert offered("run", "--method") == METHOD.names()
    assert offered("compare", "--methods", last="fedavg,fedpr") == ["fedavg,fedprox"]
    assert set(offered("run", "--dataset")) == {*KNOWN_SETS, "npz:", "npy:", "idx:", "table:", "hf:"}
    assert offered("run", "--model") == model_names()
    assert offered("costs", "--model", last="c") == ["cnn", "cnn-mcmahan"]
    assert offered("partition", "--partition", last="iid,di") == ["iid,dirichlet:", "iid,dirichlet-classes:"]


def test_families_and_their_rules():
    assert "upload_codec" in offered("list")
    assert offered("list", "upload_codec", last="t") == ["topk"]
    assert offered("list", "model", last="a") == ["alexnet"]


def test_what_may_be_set():
    assert offered("run", "--set", last="upload_c") == ["upload_codec.", "upload_codec="]
