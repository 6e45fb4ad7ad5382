"""The rules of the study of ξ: FedTrip's step with another ξ, and with plain norms."""

import math

import pytest
import torch
from tests.reference.naive import assert_follows, gaps
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting

import fedtrip
from fedtrip.families import METHOD
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import Memory, make_method
from fedtrip.paper.entries.xi_lines import RULES
from fedtrip.paper.study_rules import AnnealedXi, ConstantXi, GapNorm, GapXi, InverseGapNorm

STUDY = "fedtrip.paper.study_rules"
XI = [
    (AnnealedXi(mu=0.6), math.exp(-0.6) + (1 - math.exp(-0.6)) / 3),  # e^{−(7−1)/10}
    (AnnealedXi(mu=0.6, tau=3.0), math.exp(-2) + (1 - math.exp(-2)) / 3),
    (GapXi(mu=0.6), 3.0),
    (ConstantXi(mu=0.6), 1.0),
    (ConstantXi(mu=0.6, value=0.3), 0.3),
    (ConstantXi(mu=0.6, value=0.0), 0.0),
    (GapNorm(mu=0.6), 3.0),
    (InverseGapNorm(mu=0.6), 1 / 3),
]
"""A rule, and its ξ for a client that took part in round 4 and again in round 7."""


@pytest.mark.parametrize(("rule", "xi"), XI, ids=str)
def test_the_correction_is_the_gradient_of_the_written_term(rule, xi):
    w, w_k, w_hist, initial = vectors(4)
    memory = Memory({"w_hist": w_hist}, last_round=4)
    correction = correction_of(rule, {"w": w}, memory, round_number=7, initial=initial)

    def squared(v):
        return 0.3 * ((v - w).square().sum() - xi * (v - w_hist).square().sum())

    def norm(v):
        return 0.3 * ((v - w).square().sum().sqrt() - xi * (v - w_hist).square().sum().sqrt())

    wanted = gradient_of(norm if isinstance(rule, InverseGapNorm) else squared, w_k)
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


def test_two_rounds_of_the_plain_norm_by_hand():
    # With one parameter (w_k − w)/‖w_k − w‖ is a sign, and 0 at 0; μ/2 = ¼, rate ½.
    # Round 1: client 0: 2, then 2 + ½(2 − ¼) = 2.875. Client 1: 4, then 4 + ½(4 − ¼) = 5.875. w = 20.5/4 = 5.125.
    # Round 2: client 1, ξ = 1, history 5.875: at 5.125 only the history pushes, down: + ½(2.875 − ¼): 6.4375; there
    # the two cancel: + ½·1.5625: 7.21875. Client 2, new: 0.5625, then 0.5625 − ½(4.5625 − ¼) = −1.59375.
    for rule in (InverseGapNorm, GapNorm):  # the gap is 1
        history = play(rule(mu=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (1, 2)])
        assert [w for (w,) in w_of(history)] == pytest.approx([5.125, (3 * 7.21875 - 2 * 1.59375) / 5], rel=1e-6)


def test_a_newcomer_of_the_plain_norm_has_only_the_pull():
    w, w_k, initial = vectors(3)
    correction = correction_of(InverseGapNorm(mu=0.6), {"w": w}, Memory(), round_number=5, initial=initial)
    wanted = 0.3 * (w_k - w) / (w_k - w).norm()
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


def test_a_plain_norm_that_is_zero_gives_a_zero_term():
    w, w_hist, initial = vectors(3)
    rule, gap = InverseGapNorm(mu=0.8), 2
    correction = correction_of(rule, {"w": w}, Memory({"w_hist": w_hist}, 1), round_number=1 + gap, initial=initial)
    away = (w - w_hist) / (w - w_hist).norm()
    torch.testing.assert_close(added(correction, w), -0.4 * 0.5 * away, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(added(correction, w_hist), -0.4 * away, rtol=1e-5, atol=1e-6)
    both = correction_of(rule, {"w": w}, Memory({"w_hist": w}, 1), round_number=1 + gap, initial=initial)
    assert torch.equal(added(both, w), torch.zeros_like(w))


def test_the_plain_norm_has_bounded_length():
    w, w_k, w_hist, initial = vectors(4)
    memory = Memory({"w_hist": w_hist}, last_round=1)
    correction = correction_of(InverseGapNorm(mu=0.8), {"w": w}, memory, round_number=3, initial=initial)
    assert added(correction, 1e4 * w_k).norm() < 0.4 * (1 + 1 / 2) + 1e-5


def test_the_literal_gap_with_squared_norms_diverges():
    # READING.md: unbounded below. A test of the sign: the history pushes away.
    b = [[4.0], [8.0], [-4.0]]
    history = play(GapXi(mu=4.0), b=b, samples=[1, 1, 1], chosen=[(0, 1, 2), (0,), (1,), (2,)] * 4)
    assert not abs(w_of(history)[-1][0]) < 100
    assert math.isfinite(w_of(history)[1][0])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("AnnealedXi", {}),
        ("AnnealedXi", {"tau": 2.0}),
        ("GapXi", {}),
        ("ConstantXi", {"value": 0.7}),
        ("InverseGapNorm", {}),
        ("GapNorm", {}),
    ],
)
def test_runs_like_the_reference(rule, options, momentum):
    setting = Setting(momentum=momentum)
    assert gaps(setting) == ({1, 2, 3, 4}, 3)  # every kind of client takes part
    assert_follows(setting, f"{STUDY}:{rule}", mu=0.4, **options)


@pytest.mark.parametrize("rule", [AnnealedXi, ConstantXi, GapXi, InverseGapNorm, GapNorm])
def test_the_mu_of_a_rule_is_the_papers_unless_it_is_given(rule):
    name = METHOD.name_of(rule)
    assert name == f"{STUDY}:{rule.__name__}"
    for model, mu in (("mlp", 1.0), ("cnn", 0.4)):
        assert make_method(name, {}, model=model, dataset="mnist") == rule(mu=mu)
    assert make_method(name, {"mu": 0.1}, model="mlp", dataset="mnist") == rule(mu=0.1)


def test_every_rule_of_the_study_can_be_run_by_its_name():
    shas = set()
    for method in RULES.values():
        experiment = fedtrip.Experiment(method=method, rounds=3, per_round=6, samples_per_client=20)
        shas.add(fedtrip.run(experiment, workers=1).model_sha256)
        assert issubclass(METHOD.find(method), FedTrip)
    assert len(shas) == len(RULES)


def test_without_weight_it_is_fedavg_to_the_bit():
    setting = Setting(momentum=0.9)
    average = setting.run("fedavg").model_sha256
    for rule in ("AnnealedXi", "GapXi", "GapNorm", "InverseGapNorm"):
        assert setting.run(f"{STUDY}:{rule}", mu=0.0).model_sha256 == average


def test_without_a_history_it_is_fedprox_to_the_bit():
    setting = Setting(momentum=0.9)
    trip = setting.run(f"{STUDY}:ConstantXi", mu=0.3, value=0.0)
    assert trip.model_sha256 == setting.run("fedprox", mu=0.3).model_sha256
    assert trip.model_sha256 != setting.run("fedavg").model_sha256
