"""Options of every family's rule on the command line: fields, `--set FAMILY.OPTION=VALUE`, and what is refused."""

import tomllib

import pytest

from fedtrip.families import FAMILIES

SMALL = ("--rounds", 1, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10, "--quiet")
RUN = ("run", *SMALL, "--method", "fedavg", "--workers", 1)


def stored(folder):
    return tomllib.loads((folder / "experiment.toml").read_text(encoding="utf-8"))


def test_fields_name_rules_and_set_gives_their_options(fedtrip, here):
    ended = fedtrip(
        *RUN, "--optimizer", "adam", "--set", "optimizer.beta1=0.8", "--upload-codec", "topk:0.5",
        "--set", "upload_codec.feedback=false", "--lr-schedule", "step:3", "--set", "lr_schedule.gamma=0.5",
        "--select", "weighted", "--combine", "trimmed:0.2", "--server-optimizer", "momentum", "--clip", "gradient:3",
        "--set", "attack=dropout:0.1", "--out", "mine",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert (
        stored(here / "mine").items()
        >= {
            "optimizer": {"name": "adam", "beta1": 0.8, "beta2": 0.999, "eps": 1e-8},
            "upload_codec": {"name": "topk:0.5", "feedback": False},
            "lr_schedule": {"name": "step:3", "gamma": 0.5},
            "select": "weighted",
            "combine": "trimmed:0.2",
            "server_optimizer": {"name": "momentum", "beta": 0.9, "lr": 1.0},
            "clip": "gradient:3",
            "attack": "dropout:0.1",
        }.items()
    )


def test_the_option_behind_the_colon_can_be_set_too(fedtrip, here):
    assert fedtrip(*RUN, "--upload-codec", "topk:0.5", "--out", "first").code == 0
    ended = fedtrip("run", "first/experiment.toml", "--set", "upload_codec.share=0.25", "--quiet", "--out", "second")
    assert ended.code == 0, ended.err
    assert stored(here / "second")["upload_codec"] == {"name": "topk:0.25", "feedback": True}


def test_another_optimizer_than_a_stored_runs_takes_no_momentum_from_it(fedtrip, here):
    assert fedtrip(*RUN, "--out", "first").code == 0
    ended = fedtrip("run", "first/experiment.toml", "--optimizer", "adam", "--quiet", "--out", "second")
    assert ended.code == 0, ended.err
    assert stored(here / "second")["momentum"] == 0.0


def test_compare_sweeps_options_of_rules(fedtrip, here):
    ended = fedtrip(
        "compare", *SMALL, "--methods", "fedavg", "--optimizer", "adam", "--set", "optimizer.beta1=0.5,0.9",
        "--set", "combine=mean,median", "--trials", 1, "--workers", 1, "--out", "cmp",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert {path.name for path in (here / "cmp" / "runs").iterdir()} == {
        f"fedavg_optimizer.beta1={beta}_combine={rule}" for beta in (0.5, 0.9) for rule in ("mean", "median")
    }


@pytest.mark.parametrize("field", sorted(set(FAMILIES) - {"method"}))
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_wrong_name_is_one_line_with_a_suggestion(fedtrip, here, listing, command, field):
    known, form = FAMILIES[field].names()[-1], FAMILIES[field].forms()[-1]
    before = listing(here)
    for given in ((f"--{field.replace('_', '-')}", f"{known}x"), ("--set", f"{field}={known}x")):
        ended = fedtrip(command, *SMALL, *given)
        assert ended.code == 2
        assert f"{field} '{known}x' is unknown; did you mean '{form}'?" in ended.err
        assert len(ended.err.splitlines()) == 1
    assert listing(here) == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--set", "optimizer.beta1=0.8"], "optimizer 'sgd': option 'beta1' is unknown; accepted: momentum"),
        (["--set", "upload_codec.feedback=false"], "option 'feedback' is unknown: upload_codec 'none' has no options"),
        (["--optimizer", "adam", "--set", "optimizer.beta3=1"], "option 'beta3' is unknown; did you mean 'beta"),
        (["--optimizer", "adam", "--set", "optimizer.beta1=2"], "option 'beta1' is 2; accepted: less than 1"),
        (["--set", "optimiser.beta1=2"], "--set optimiser.beta1: 'optimiser' is unknown; did you mean 'optimizer'?"),
        (["--set", "partition.alpha=2"], "--set partition.alpha: a partition has its option behind the colon"),
        (["--set", "lr.x=2"], "--set lr.x: 'lr' is unknown"),
        (["--gpu", "0"], "No such option"),
        (["--device", "gpu"], "device is 'gpu'; accepted: cpu, cuda"),
    ],
)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["run", "compare"])
def test_what_no_rule_has_is_refused_by_name(fedtrip, command, given, words):
    ended = fedtrip(command, *SMALL, *given)
    assert ended.code == 2
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1


def test_the_help_names_every_rule_of_the_registry(fedtrip, monkeypatch):
    monkeypatch.setenv("COLUMNS", "700")
    for command in ("run", "compare"):
        shown = " ".join(fedtrip(command, "--help").out.split())
        for field, family in FAMILIES.items():
            if field != "method" or command == "run":
                assert ", ".join(family.forms()) in shown, field
