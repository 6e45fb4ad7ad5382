"""What the shell offers for a word that is not finished: names from the registry, without PyTorch."""

import os
import subprocess
import sys

import pytest

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.families import FAMILIES, METHOD, UPLOAD_CODEC, model_names
from fedtrip.registry import option_fields

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
    assert offered("compare", "--set", last="fedpr") == ["fedprox."]
    assert "fedavg." not in offered("compare", "--set"), "it has no options"


def test_the_options_of_a_method():
    assert offered("run", "--set", last="fedtrip.") == ["fedtrip.mu="]
    assert offered("compare", "--set", last="fedadam.b") == [
        "fedadam.beta1=",
        "fedadam.beta2=",
        "fedadam.bias_correction=",
    ]
    assert offered("run", "--set", last="nobody.") == offered("run", "--set", last="partition.") == []


def test_the_options_of_the_rule_that_was_typed():
    assert offered("run", "--set", last="method.") == ["method.mu="], "of the default"
    assert offered("run", "--method", "slowmo", "--set", last="method.") == ["method.alpha=", "method.beta="]
    compared = offered("compare", "--methods", "slowmo,feddyn,moon", "--set", last="method.")
    assert compared == ["method.alpha=", "method.beta=", "method.mu=", "method.tau="]
    assert "method.lam=" in offered("compare", "--methods", "all", "--set", last="method.")
    assert offered("run", "--optimizer", "adam", "--set", last="optimizer.beta") == [
        "optimizer.beta1=",
        "optimizer.beta2=",
    ]
    assert offered("run", "--upload-codec", "topk:0.1", "--set", last="upload_codec.f") == ["upload_codec.feedback="]


def test_the_entries_of_reproduce():
    from fedtrip.paper.registry import ENTRIES

    assert offered("reproduce") == [*ENTRIES, "all"]
    assert offered("reproduce", "table4", last="fig") == ["fig2", "fig4", "fig5", "fig6", "fig7"]
    assert offered("reproduce", "table4", "--methods", last="fedtrip,moo") == ["fedtrip,moon"]


def test_words_that_a_field_may_have():
    assert offered("run", "--draw") == ["overlap", "nested", "disjoint"]
    assert offered("run", "--compute", last="n") == ["native", "native-evaluation"]
    assert offered("run", "--validation-at") == ["server", "clients"]
    assert offered("compare", "--device") == ["cpu", "cuda", "mps"]
    assert offered("data", "get", last="cif") == ["cifar-10", "cifar-100"]
    assert offered("data", "verify", last="fash") == ["fashion-mnist"]


@pytest.mark.parametrize("field", FAMILIES)
def test_options_read_off_the_sources_are_those_of_the_classes(field):
    family = FAMILIES[field]
    for name in family.names():
        assert list(family.options(name)) == [one.name for one in option_fields(family.find(name))], name
    assert family.options("package.module:Class") == ()
