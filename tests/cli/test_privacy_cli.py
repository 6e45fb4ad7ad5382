"""`--epsilon` and `--delta`, what a private run and its report say, and the secret that a deployment's noise needs."""

import dataclasses
import json
import stat

import pytest
from tests.combining.test_private import MODULE, PAIRS, experiment

import fedtrip as package
from fedtrip.experiment.federation import PackedFederation, prepare
from fedtrip.runs.running import run_federation

SMALL = ("--clients", 6, "--per-round", 3, "--samples-per-client", 30, "--rounds", 2, "--workers", 1, "--quiet")


def test_the_budget_is_kept_to_and_said(fedtrip, here):
    ended = fedtrip("run", "--epsilon", 8, "--delta", 1e-3, *SMALL, "--out", here / "run")
    assert ended.code == 0, ended.err
    assert "δ = 0.001)-differential privacy of whole clients after 2 rounds" in ended.out
    summary = json.loads((here / "run/summary.json").read_text())
    assert 7.9 < summary["epsilon"] <= 8
    ended = fedtrip("report", here / "run", "--out", here / "report.html")
    assert ended.code == 0, ended.err
    assert "-differential privacy of whole clients after 2 rounds" in (here / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["--epsilon", 8, "--combine", "median"],
            "--epsilon is 8, but --combine is 'median'; accepted: --combine private",
        ),
        (["--epsilon", 8, "--combine", "private:1"], "noise 1.0 and epsilon 8.0; accepted: one of the two"),
        (["--epsilon", 0], "epsilon"),
        (["--epsilon", 8, "--delta", 0.5], "delta 0.5"),
        (["--epsilon", 8, "--method", "scaffold"], "method 'scaffold'"),
        (["--epsilon", 8, "--select", "uniform"], "select 'uniform'; accepted: select poisson"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(fedtrip, here, given, words):
    ended = fedtrip("run", *given, *SMALL, "--out", here / "run")
    assert ended.code == 2
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1
    assert list(here.iterdir()) == []


def test_the_noise_of_a_deployment_follows_from_a_secret_that_only_the_server_has(tmp_path):
    from fedtrip.flower.server import noise_secret

    secret = noise_secret(tmp_path)
    assert noise_secret(tmp_path) == secret  # for a resumption
    assert noise_secret(tmp_path / "other") != secret
    (path,) = [one for one in (tmp_path / "checkpoint").iterdir() if one.is_file()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = package.from_clients(PAIRS, PAIRS[0], mean=0.0, std=1.0)
    federation = prepare(experiment(), model=MODULE, data=data)
    digests = [
        run_federation(dataclasses.replace(federation, secret=each), workers=1).model_sha256
        for each in ("", secret, secret, noise_secret(tmp_path / "other"))
    ]
    assert digests[1] == digests[2]
    assert len(set(digests)) == 3
    assert not hasattr(PackedFederation.of(dataclasses.replace(federation, secret=secret)), "secret")
