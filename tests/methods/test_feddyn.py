"""FedDyn: step g − λ_k + α(w_k − w); λ_k ← λ_k − α(w_k − w); h ← h − (α/N)Σ(w_k − w); w ← mean − h/α."""

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting
from tests.reference.watching import run_with_failures

from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.interface import Memory, make_method


def test_two_rounds_by_hand():
    # α = ½, η = ½, N = 3. Round 1 from 0, λ = 0: w ← w/4 + b/2 + w_glob/4: client 0 (b 4) 2, 2.5; client 1 (b 8)
    # 4, 5. λ = −1.25, −2.5. h = −(½/3)·7.5 = −1.25. w = 3.75 + 2.5 = 6.25 (uniform, though n differs).
    # Round 2: client 0: w ← w/4 + 2 − 0.625 + 1.5625: 4.5, 4.0625. Client 2 (b −4): w ← w/4 − 0.4375: 1.125, −0.15625.
    # Σ(w_k − w) = −8.59375; h = −1.25 + 8.59375/6; w = 1.953125 − 2h; λ_0 = −1.25 + ½·2.1875, λ_2 = ½·6.40625.
    history = play(FedDyn(alpha=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    h = -1.25 + 8.59375 / 6
    assert [w for (w,) in w_of(history)] == pytest.approx([6.25, 1.953125 - 2 * h], rel=1e-6)
    assert [float(server.state["h"]) for server, _ in history] == pytest.approx([-1.25, h], rel=1e-6)
    kept = {k: float(memory["lambda_k"]) for k, memory in history[-1][1].items()}
    assert kept == pytest.approx({0: -0.15625, 1: -2.5, 2: 3.203125}, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("new", [True, False])
def test_the_correction_is_the_gradient_of_the_written_term(alpha, new):
    w, w_k, lambda_k, initial = vectors(4)
    memory = Memory() if new else Memory({"lambda_k": lambda_k}, last_round=1)
    correction = correction_of(FedDyn(alpha=alpha), {"w": w}, memory, round_number=4, initial=initial)

    def term(v):
        return (0.0 if new else -(lambda_k.double() @ v)) + alpha / 2 * (v - w).square().sum()

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


def test_the_state_of_the_server_is_the_mean_over_all_clients():
    # h = (1/N) Σ_k λ_k after every round, where N counts clients that have not taken part, or never will (3).
    b = [[4.0, 1.0], [8.0, -2.0], [-4.0, 3.0], [1.0, 1.0]]
    chosen = [(0, 1), (1, 2), (0,), (0, 2), (1,)]
    for server, memories in play(
        FedDyn(alpha=0.3), b=b, samples=[1, 5, 2, 7], chosen=chosen, lr=0.2, start=(0.5, -0.5)
    ):
        mean = sum(memory["lambda_k"].double() for memory in memories.values()) / 4
        torch.testing.assert_close(server.state["h"], mean, rtol=1e-5, atol=1e-6)
        assert mean.norm() > 0.01


@pytest.mark.parametrize("failures", [set(), {(2, 0)}, {(1, 2), (5, 1)}], ids=str)
def test_the_invariant_holds_in_a_run(failures):
    setting = Setting(rounds=6)
    state, records, model = run_with_failures(setting, failures, "feddyn", alpha=0.2)
    assert sum(len(record.refused) for record in records) == len(failures)
    kept = [state.memories.get(k) for k in range(5)]
    mean = sum(memory["lambda_k"].double() for memory in kept if not memory.is_new) / 5
    torch.testing.assert_close(state.server.state["h"], mean, rtol=1e-4, atol=1e-7)
    module, reference = run_naive(setting, "feddyn", failures=failures, alpha=0.2)
    assert apart(model, module) < CLOSE
    assert float(mean.norm()) == pytest.approx(float(reference.h.norm()), rel=1e-4)


def test_it_reaches_the_optimum_of_all_clients_together():
    # The point of the method: with local optima far apart its fixed point is the optimum of the mean loss, here −2/3.
    b = [[4.0], [8.0], [-14.0]]
    history = play(FedDyn(alpha=0.5), b=b, samples=[1, 1, 1], chosen=[(0, 1, 2)] * 60, steps=3)
    assert w_of(history)[-1] == [pytest.approx(-2 / 3, abs=1e-4)]


def test_alpha_is_one_on_mnist():
    assert make_method("feddyn", {}, model="cnn", dataset="mnist").alpha == 1.0
    assert make_method("feddyn", {}, model="cnn", dataset="fashion-mnist").alpha == 0.1
    assert make_method("feddyn", {"alpha": 0.3}, model="cnn", dataset="mnist").alpha == 0.3
    assert FedDyn.momentum == 0.0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(momentum, weight_decay):
    assert_follows(Setting(momentum=momentum, weight_decay=weight_decay), "feddyn", alpha=0.3)
