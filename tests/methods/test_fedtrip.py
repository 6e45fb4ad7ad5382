"""FedTrip, the paper's Algorithm 1: step g + μ[(w_k − w) + ξ(w_hist − w_k)], ξ = 1/gap; a newcomer is FedProx's."""

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, gaps, run_naive
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting
from tests.reference.watching import run_with_failures

from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import Memory, make_method
from fedtrip.registry import options_of


def test_three_rounds_by_hand():
    # μ = ½, rate ½. Round 1, all new, is FedProx's: client 0 (b 4) ends at 2.5, client 1 (b 8) at 5; w = 4.375.
    # Round 2: client 1 has ξ = 1 and history 5, so the term is the constant ½(5 − 4.375) and the step
    # w ← w/2 + 4 − 0.15625: 6.03125, 6.859375. Client 2 (b −4) is new: 0.1875, −0.859375. w = 18.859375/5 = 3.771875.
    # Round 3: client 0 was last here two rounds ago, ξ = ½ with history 2.5: w ← 0.375w + 1.6875 + 3.771875/4:
    # 4.044921875, 4.147314453125. Client 1, ξ = 1, history 6.859375: w ← w/2 + 4 − 0.771875: 5.1140625, 5.78515625.
    b, samples = [[4.0], [8.0], [-4.0]], [1, 3, 2]
    history = play(FedTrip(mu=0.5), b=b, samples=samples, chosen=[(0, 1), (1, 2), (0, 1)])
    wanted = [4.375, 3.771875, (4.147314453125 + 3 * 5.78515625) / 4]
    assert [w for (w,) in w_of(history)] == pytest.approx(wanted, rel=1e-6)
    memories = history[-1][1]
    kept = {k: float(memory["w_hist"]) for k, memory in memories.items()}
    assert kept == pytest.approx({0: 4.147314453125, 1: 5.78515625, 2: -0.859375}, rel=1e-6)


def test_the_correction_is_the_gradient_of_the_written_term():
    mu, xi = 0.6, 1 / 3
    w, w_k, w_hist, initial = vectors(4)
    method = make_method("fedtrip", {"mu": mu}, model="cnn", dataset="mnist")
    memory = Memory({"w_hist": w_hist}, last_round=4)
    correction = correction_of(method, {"w": w}, memory, round_number=7, initial=initial)

    def term(v):
        return mu / 2 * ((v - w).square().sum() - xi * (v - w_hist).square().sum())

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gap", [1, 2, 9])
def test_xi_is_one_over_the_gap_in_every_round(gap):
    for t in (gap + 1, 50):
        assert FedTrip().xi(t, gap) == 1 / gap


def test_a_newcomer_is_fedproxs():
    w, w_k, initial = vectors(3)
    correction = correction_of(FedTrip(mu=0.6), {"w": w}, Memory(), round_number=5, initial=initial)
    torch.testing.assert_close(added(correction, w_k), 0.6 * (w_k - w), rtol=1e-5, atol=1e-5)


def test_the_client_keeps_what_it_uploads():
    history = play(FedTrip(mu=0.5), b=[[4.0], [8.0]], samples=[1, 1], chosen=[(0,), (1,)])
    assert float(history[1][1][0]["w_hist"]) == 2.5  # of round 1, not changed by round 2


def test_it_is_the_papers_algorithm_and_nothing_else():
    assert options_of(FedTrip()) == {"mu": 0.4}
    for model, mu in (("mlp", 1.0), ("cnn", 0.4), ("alexnet", 0.4)):
        assert make_method("fedtrip", {}, model=model, dataset="mnist") == FedTrip(mu=mu)
    assert make_method("fedtrip", {"mu": 0.3}, model="mlp", dataset="mnist") == FedTrip(mu=0.3)


@pytest.mark.parametrize("kept", [False, True], ids=["reset", "kept"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(momentum, kept):
    setting = Setting(momentum=momentum, keep_optimizer_state=kept)
    assert gaps(setting) == ({1, 2, 3, 4}, 3)  # every kind of client takes part
    assert_follows(setting, "fedtrip", mu=0.4)


def test_the_gap_counts_from_the_last_round_that_succeeded():
    setting = Setting(momentum=0.9)
    again = next((t, k) for t in range(2, 6) for k in setting.chosen(t) if k in setting.chosen(t - 1))
    assert any(again[1] in setting.chosen(t) for t in range(again[0] + 1, 7))  # it comes back
    module, reference = run_naive(setting, "fedtrip", failures={again}, mu=0.4)
    state, records, model = run_with_failures(setting, {again}, "fedtrip", mu=0.4)
    assert list(records[again[0] - 1].refused) == [again[1]]
    assert apart(model, module) < CLOSE
    assert apart(model, run_naive(setting, "fedtrip", mu=0.4)[0]) > 1e-3
    assert {k: state.memories.get(k).last_round for k in reference.last} == reference.last
