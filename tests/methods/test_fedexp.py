"""FedExP: η_g = max(1, Σp_k‖Δ_k‖²/(2(‖Δ̄‖² + ε))); w ← w + η_g·Δ̄; ε follows the square of the local rate."""

import math
from itertools import pairwise

import pytest
import torch
from tests.reference.naive import apart, assert_follows, run_naive
from tests.reference.quadratic import combined, correction_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised, samples
from tests.reference.watching import bytes_of, watched

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.fedexp import FedExp
from fedtrip.methods.interface import CostSymbols, Memory, Server, Upload, make_method


def test_two_rounds_by_hand():
    # η = ½, K = 2: Δ_k = ¾(b − w). ε = 0.5625. Round 1: Δ = 6 and −3 with p = ¼, ¾: Δ̄ = 1.5 − 2.25 = −0.75;
    # Σp‖Δ‖² = 9 + 6.75 = 15.75; η_g = 15.75/(2(0.5625 + 0.5625)) = 7; w = −5.25.
    # Round 2: client 0 (b 8) Δ = 9.9375, client 2 (b 4) 6.9375, p = ⅓, ⅔: they agree, η_g = 1; Δ̄ = 7.9375.
    history = play(FedExp(eps=0.5625), b=[[8.0], [-4.0], [4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[-5.25], [2.6875]]
    assert [float(server.state["eta_1"]) for server, _ in history] == [0.5, 0.5]


def test_epsilon_may_count_once_for_each_client():
    # The same with 2ε in the denominator, ε = 0.28125: η_g = 7 again, and with ε alone 15.75/1.6875 = 28/3.
    rounds = {"b": [[8.0], [-4.0], [4.0]], "samples": [1, 3, 2], "chosen": [(0, 1)]}
    assert w_of(play(FedExp(eps=0.28125, eps_each=True), **rounds)) == [[-5.25]]
    assert w_of(play(FedExp(eps=0.28125), **rounds)) == [[pytest.approx(-7.0, rel=1e-6)]]


def step(method, deltas, n=None, lr=0.5, before=None):
    """The server after a round of clients who moved by these differences."""
    w = torch.zeros(len(deltas[0])) if before is None else before.w
    state = method.start(w) if before is None else before.state
    uploads = [Upload(k, 1 if n is None else n[k], {"w": w + torch.tensor(delta)}) for k, delta in enumerate(deltas)]
    return method.aggregate(Server({"w": w}, state, 1, 0, 9, lr), combined(method, uploads))


@pytest.mark.parametrize(("clients", "rate"), [(2, 1.0), (3, 1.5), (6, 3.0)])
def test_orthogonal_updates_are_extrapolated_by_half_their_number(clients, rate):
    deltas = (4 * torch.eye(clients)).tolist()
    assert step(FedExp(eps=0.0), deltas).w.tolist() == pytest.approx([rate * 4 / clients] * clients, rel=1e-6)


def test_updates_that_agree_are_not_extrapolated():
    # The ratio is ½ then, and η_g = max(1, ½).
    assert step(FedExp(eps=0.0), [[3.0, -1.0]] * 4).w.tolist() == [3.0, -1.0]
    setting = Setting(per_round=1)
    assert apart(setting.run("fedexp", eps=0.0).state, setting.run("fedavg").module) < 1e-6


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_updates_that_cancel_or_vanish_leave_the_model(eps):
    assert step(FedExp(eps=eps), [[1.0], [-1.0]]).w.tolist() == [0.0]
    assert step(FedExp(eps=eps), [[0.0], [0.0]]).w.tolist() == [0.0]


def test_epsilon_follows_the_square_of_the_rate():
    # Δ = 6 and −3 as above, ε = 0.5625: at the first rate η_g = 7. At half of it ε is a quarter: η_g =
    # 15.75/(2(0.5625 + 0.140625)) = 11.2; and what counts is the rate of the first round, not of the last.
    method = FedExp(eps=0.5625)
    first = step(method, [[6.0], [-3.0]], n=[1, 3], lr=0.5)
    second = step(method, [[6.0], [-3.0]], n=[1, 3], lr=0.25, before=first)
    third = step(method, [[6.0], [-3.0]], n=[1, 3], lr=0.5, before=second)
    places = [0.0, float(first.w), float(second.w), float(third.w)]
    moves = [b - a for a, b in pairwise(places)]
    assert moves == pytest.approx([-0.75 * 7, -0.75 * 11.2, -0.75 * 7], rel=1e-6)


def test_a_schedule_reaches_it(monkeypatch):
    seen, right = [], FedExp._eps
    monkeypatch.setattr(FedExp, "_eps", lambda self, *rates: seen.append(rates) or right(self, *rates))
    setting = Setting(per_round=4, rounds=3)
    halved = setting.experiment("fedexp").but(lr_schedule={"name": "exponential", "gamma": 0.5})
    fedtrip.run(halved, model=setting.module, data=setting.data, workers=1)
    assert seen == [(pytest.approx(eta), pytest.approx(0.1), 4) for eta in (0.1, 0.05, 0.025)]


def drifting(**changes):
    """More clients a round, so that their updates point apart, and the step is extrapolated."""
    return Setting(pairs=samples((7, 10, 3, 12, 6), seed=4), per_round=5, **changes)


@pytest.mark.parametrize("options", [{}, {"eps": 0.0}, {"eps": 1e-4, "eps_each": True}], ids=str)
def test_runs_like_the_reference(options):
    setting = drifting(weight_decay=0.02)
    assert_follows(setting, "fedexp", **options)
    assert max(run_naive(setting, "fedexp", **options)[1].rates) > 1.1


def test_batch_norm_is_averaged_and_no_part_of_the_norms():
    setting = normalised(rounds=4, per_round=5, lr=0.03)
    assert_follows(setting, "fedexp", eps=0.0)
    assert max(run_naive(setting, "fedexp", eps=0.0)[1].rates) > 1.1


def test_the_clients_are_fedavgs():
    w, initial = vectors(2)
    assert correction_of(FedExp(), {"w": w}, Memory(), round_number=2, initial=initial) is None
    assert (FedExp.momentum, FedExp.weighting, FedExp().eps, FedExp().eps_each) == (0.9, "samples", 1e-3, False)


def test_its_costs():
    setting = normalised(rounds=2)
    wire, records, history = watched(setting, "fedexp")
    _, usual, _ = watched(setting, "fedavg")
    w, model = bytes_of(setting)
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * model
        assert record.client_memory == 0
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
        assert record.macs - plain.macs == (2 * 2 + 3) * (w // 4)  # 2|w| for each of two clients, and 3|w|
    assert set(history[0][0].state) == {"eta_1"}
    attaching = FedExp().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (0.0, "0", "0")


def test_another_rule_of_combining_is_refused_by_name():
    setting = Setting(per_round=4)
    with pytest.raises(UserError, match="combine 'median' has no effect on method 'fedexp'"):
        fedtrip.run(setting.experiment("fedexp").but(combine="median"), model=setting.module, data=setting.data)


@pytest.mark.parametrize(("option", "value"), [("eps", -1), ("eps", math.inf), ("eps_each", 2)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedexp': option '{option}' is {value}"):
        make_method("fedexp", {option: value}, model="cnn", dataset="mnist")


def without_half(square_of_each, square_of_mean, eps):
    return square_of_each / (square_of_mean + eps)


def test_norms_that_are_not_weighted_are_caught(monkeypatch):
    monkeypatch.setattr(FedExp, "weighting", "uniform")
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()


def test_a_ratio_without_its_half_is_caught(monkeypatch):
    monkeypatch.setattr(FedExp, "_ratio", staticmethod(without_half))
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_orthogonal_updates_are_extrapolated_by_half_their_number(3, 1.5)


def test_an_epsilon_that_stays_is_caught(monkeypatch):
    monkeypatch.setattr(FedExp, "_eps", lambda self, *_: self.eps)
    with pytest.raises(AssertionError):
        test_epsilon_follows_the_square_of_the_rate()
