"""Which methods `compare` compares: the paper's and ours if nothing is said, the paper's alone, or all."""

import json

import pytest

from fedtrip.comparison.variants import PAPER_METHODS, USUAL_METHODS
from fedtrip.families import METHOD

SMALL = ("--rounds", 1, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10)


@pytest.mark.parametrize(
    ("arguments", "compared"),
    [
        ((), ["fedtrip", "fedtrip-auto", "fedavg", "fedprox", "slowmo", "moon", "feddyn"]),
        (("--methods", "paper"), ["fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn"]),
        (("--methods", "all"), METHOD.names()),
        (("--methods", "fedtrip-auto, fedavg"), ["fedtrip-auto", "fedavg"]),
    ],
    ids=["usual", "paper", "all", "named"],
)
def test_the_groups(fedtrip, here, arguments, compared):
    ended = fedtrip("compare", *SMALL, *arguments, "--trials", 1, "--workers", 1, "--quiet", "--json", "--out", "cmp")
    assert ended.code == 0, ended.err
    assert [row["variant"] for row in json.loads(ended.out)["rows"]] == compared
    assert (here / "cmp" / "runs" / compared[0] / "0" / "experiment.toml").is_file()


def test_there_are_no_presets(fedtrip, here):  # noqa: ARG001
    for command in ("run", "compare"):
        ended = fedtrip(command, "--preset", "paper")
        assert ended.code == 2
        assert "--preset" in ended.err


def test_all_names_are_methods():
    assert {*PAPER_METHODS, *USUAL_METHODS} <= set(METHOD.names())
