"""The verdicts on the paper's claims, by their rule."""

import dataclasses

import pytest

import fedtrip
import fedtrip.runs.history
from fedtrip.paper import claims_rounds
from fedtrip.paper.archive import Archive
from fedtrip.paper.claims import claims
from fedtrip.paper.claims_rounds import mean_reduction
from fedtrip.paper.entries.fig5 import SMOOTHING, smoothed
from fedtrip.paper.entry import Findings, Line
from fedtrip.paper.measures import Rounds
from fedtrip.paper.verdict import NOT, ONE_TRIAL, OPEN, PARTLY, REPRODUCED, UNSURE, verdict_of
from fedtrip.statistics import Ratio, estimate
from fedtrip.tasks.interface import ACCURACY


@pytest.mark.parametrize(
    ("low", "high", "paper", "verdict"),
    [
        (1.5, 2.0, 1.75, REPRODUCED),
        (0.9, 2.0, 1.75, UNSURE),
        (1.1, 1.5, 1.75, PARTLY),
        (1.8, 2.5, 1.75, PARTLY),
        (0.9, 1.5, 1.75, NOT),
        (0.5, 0.9, 1.75, NOT),
        (0.5, 0.9, 0.45, PARTLY),
        (None, None, 1.75, ONE_TRIAL),
    ],
)
def test_the_rule(low, high, paper, verdict):
    assert verdict_of(Ratio(1.0, low, high, ""), paper) == verdict


def test_without_runs_nothing_is_judged_but_the_costs(tmp_path):
    verdicts = list(claims(Archive(tmp_path)))
    assert {v.verdict for v in verdicts if "extra operations" not in v.claim} == {OPEN}
    by_claim = {v.claim: v for v in verdicts}
    assert by_claim["fewer rounds than MOON, mean over cases"].recomputed == "−31.63 %"
    assert by_claim["fewer rounds than FedAvg, mean over cases"].recomputed == "−44.02 %"
    assert by_claim["FedTrip needs the fewest rounds (mean over trials)"].recomputed == "5 of 6"
    best = by_claim["fewer GFLOPs than the best baseline of each case, mean over cases"]
    assert (best.paper, best.recomputed) == ("−39.58 %", "−33.78 %")  # one of the paper's slips


def ended_in(rounds, seed, method):
    """A run that reaches its target in that round."""
    experiment = fedtrip.Experiment(method=method, seed=seed, rounds=100, target=0.9)
    record = fedtrip.RoundRecord(1, {}, (0,), 1, 1, 1, 1.0)
    records = tuple(
        dataclasses.replace(record, round=n + 1, scores={"accuracy": 0.95 if n + 1 >= rounds else 0.1, "loss": 1.0})
        for n in range(100)
    )
    return fedtrip.runs.history.History(experiment, ACCURACY, records, None, None, (), None)


class Made(Findings):
    """Findings with rounds to target that are given."""

    def __init__(self, table):
        self.lines = [Line(case, label, fedtrip.Experiment()) for case, label in table]
        self._runs = {
            (case, label): {seed: ended_in(rounds, seed, "fedavg") for seed, rounds in enumerate(values)}
            for (case, label), values in table.items()
        }


def test_common_seeds_are_those_of_all_lines_of_a_case_that_have_any():
    table = {("a", "x"): [1, 2, 3], ("a", "y"): [4, 5], ("a", "z"): [], ("b", "x"): [6, 7, 8], ("c", "x"): []}
    findings = Made(table)
    common = findings.on_common_seeds()
    seeds = {key: sorted(common.runs(*key)) for key in table}
    assert seeds == {
        ("a", "x"): [0, 1], ("a", "y"): [0, 1], ("a", "z"): [], ("b", "x"): [0, 1, 2], ("c", "x"): []
    }  # fmt: skip
    assert len(findings.runs("a", "x")) == 3, "the findings themselves stay whole"
    assert common.runs("a", "x")[1] is findings.runs("a", "x")[1]


def test_the_mean_reduction_is_over_cases_then_over_seeds():
    findings = Made(
        {
            ("mlp-mnist", "FedTrip"): [10, 20], ("mlp-mnist", "MOON"): [20, 40],  # halved on both seeds
            ("cnn-mnist", "FedTrip"): [30, 30], ("cnn-mnist", "MOON"): [30, 60],  # as many, and halved
        }
    )  # fmt: skip
    verdict = mean_reduction(findings, "moon", "reduction_against_moon")
    # seed 0: (0.5 + 1)/2 = 0.75; seed 1: 0.5; mean 0.625, t(1, 97.5 %) = 12.71, half = 12.71 · 0.17678/√2 = 1.588
    assert verdict.ours == "−37.5 % [−196.3 %, +121.3 %] over 2 cases, 4 pairs"
    assert verdict.verdict == UNSURE


def test_the_mean_reduction_uses_every_seed_of_every_case_and_names_what_it_leaves_out():
    findings = Made(
        {
            ("mlp-mnist", "FedTrip"): [10, 20, 15, 12], ("mlp-mnist", "MOON"): [20, 40, 20, 20],  # .5, .5, .75, .6
            ("cnn-mnist", "FedTrip"): [30, 30], ("cnn-mnist", "MOON"): [30, 60],  # 1, .5
            ("mlp-fmnist", "FedTrip"): [30], ("mlp-fmnist", "MOON"): [60],  # one trial has no interval
        }
    )  # fmt: skip
    verdict = mean_reduction(findings, "moon", "reduction_against_moon")
    assert verdict.ours.startswith("−33.1 % [")  # (0.5875 + 0.75)/2 = 0.66875
    assert verdict.ours.endswith("over 2 cases, 6 pairs (without MLP FMNIST 75%: 1 pair)")


def test_pairs_in_which_neither_got_there_are_not_in_the_mean_reduction():
    findings = Made({("mlp-mnist", "FedTrip"): [10, 20, 999], ("mlp-mnist", "MOON"): [20, 40, 999]})
    verdict = mean_reduction(findings, "moon", "reduction_against_moon")
    assert verdict.ours == "−50.0 % [−50.0 %, −50.0 %] over 1 case, 2 pairs"


def test_smoothing_is_a_weighted_mean_of_the_past():
    import numpy as np

    x = np.array([[0.0, 1.0, 0.5]])
    assert smoothed(x)[0, 0] == 0.0
    assert smoothed(x)[0, 1] == pytest.approx(1.0 / (1 + SMOOTHING))
    weights = np.array([SMOOTHING**2, SMOOTHING, 1.0])
    assert smoothed(x)[0, 2] == pytest.approx((weights * x[0]).sum() / weights.sum())


def test_neither_a_tie_nor_a_case_without_all_methods_is_the_fewest_rounds(monkeypatch):
    means = {"FedTrip": 9.0, "FedAvg": 9.0, "FedProx": 9.5, "SlowMo": 20.0, "MOON": 10.0, "FedDyn": 11.0}

    def rounds(findings, case, label):  # noqa: ARG001
        if case == "alexnet-cifar" and label in ("MOON", "FedDyn"):
            return None
        lower = 1.0 if (case, label) in (("cnn-mnist", "FedTrip"), ("alexnet-cifar", "FedTrip")) else 0.0
        return Rounds(estimate([means[label] - lower]), 0)

    monkeypatch.setattr(claims_rounds, "rounds_of", rounds)
    verdict = claims_rounds.fewest_rounds(Findings((), None))
    assert verdict.ours.startswith("1 of 5 cases (MLP MNIST 87%: FedTrip = FedAvg; ")
    assert "CNN MNIST 90%: FedTrip;" in verdict.ours
    assert "AlexNet CIFAR-10 50%: 4 of 6 methods run" in verdict.ours
    assert verdict.verdict == NOT
