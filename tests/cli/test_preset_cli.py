"""`--preset paper` of `run` and `compare`."""

import tomllib

import pytest

from fedtrip.experiment.presets import PRESETS

SMALL = ("--rounds", 1, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10, "--quiet")
PAPER = PRESETS["paper"]["fedtrip"]


def method_of(folder):
    return tomllib.loads((folder / "experiment.toml").read_text())["method"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), PAPER),
        (("--set", "method.xi=constant", "--set", "method.penalty=norm"), {"xi": "constant", "penalty": "norm"}),
        (("--method", "fedprox"), {"name": "fedprox"}),
    ],
    ids=["alone", "with --set", "a method without presets"],
)
def test_run_takes_the_papers_options_where_none_is_set(fedtrip, here, arguments, expected):
    assert fedtrip("run", *SMALL, "--preset", "paper", *arguments, "--out", "mine").code == 0
    assert method_of(here / "mine").items() >= expected.items()


def test_a_preset_replaces_what_an_experiment_file_says(fedtrip, here):
    fedtrip("run", *SMALL, "--set", "method.xi=gap", "--set", "method.penalty=norm", "--out", "first")
    assert fedtrip("run", "first/experiment.toml", "--preset", "paper", "--quiet", "--out", "second").code == 0
    assert method_of(here / "second").items() >= PAPER.items()


def test_compare_gives_it_to_the_methods_that_have_it(fedtrip, here):
    ended = fedtrip(
        "compare", *SMALL, "--preset", "paper", "--methods", "fedtrip,fedavg", "--set", "fedtrip.mu=0.1,0.4",
        "--set", "fedtrip.first=none", "--trials", 1, "--workers", 1, "--out", "cmp",
    )  # fmt: skip
    assert ended.code == 0
    for mu in (0.1, 0.4):
        expected = {**PAPER, "first": "none", "mu": mu}
        assert method_of(here / f"cmp/runs/fedtrip_mu={mu}/0").items() >= expected.items()
    assert set(method_of(here / "cmp/runs/fedavg/0")) == {"name"}


def test_an_unknown_preset_is_named(fedtrip, here):
    ended = fedtrip("run", *SMALL, "--preset", "nobody", "--out", "mine")
    assert ended.code == 2
    assert "nobody" in ended.err
    assert "paper" in ended.err
    assert not (here / "mine").exists()
