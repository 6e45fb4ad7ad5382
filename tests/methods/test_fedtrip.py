"""FedTrip: step g + μ[(w_k − w) + ξ(w_hist − w_k)], its rules for ξ, its penalties, its first rounds."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, gaps, run_naive
from tests.reference.quadratic import QuadraticLocal, added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting
from tests.reference.watching import run_with_failures

from fedtrip.errors import UserError
from fedtrip.experiment.presets import preset_options
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import Memory, make_method

RULES = [
    ({}, math.exp(-0.6) + (1 - math.exp(-0.6)) / 3),  # annealed, e^{−(7−1)/10}
    ({"xi": "inverse-gap"}, 1 / 3),
    ({"xi": "annealed"}, math.exp(-0.6) + (1 - math.exp(-0.6)) / 3),  # e^{−(7−1)/10}
    ({"xi": "annealed", "xi_rounds": 3.0}, math.exp(-2) + (1 - math.exp(-2)) / 3),
    ({"xi": "gap"}, 3.0),
    ({"xi": "constant"}, 1.0),
    ({"xi": "constant", "xi_value": 0.3}, 0.3),
    ({"xi": "constant", "xi_value": 0.0}, 0.0),
]
"""options, and ξ for a client that took part in round 4 and again in round 7"""


def test_three_rounds_by_hand():
    # μ = ½, rate ½. Round 1, all new, is FedProx's: client 0 (b 4) ends at 2.5, client 1 (b 8) at 5; w = 4.375.
    # Round 2: client 1 has ξ = 1 and history 5, so the term is the constant ½(5 − 4.375) and the step
    # w ← w/2 + 4 − 0.15625: 6.03125, 6.859375. Client 2 (b −4) is new: 0.1875, −0.859375. w = 18.859375/5 = 3.771875.
    # Round 3: client 0 was last here two rounds ago, ξ = ½ with history 2.5: w ← 0.375w + 1.6875 + 3.771875/4:
    # 4.044921875, 4.147314453125. Client 1, ξ = 1, history 6.859375: w ← w/2 + 4 − 0.771875: 5.1140625, 5.78515625.
    b, samples = [[4.0], [8.0], [-4.0]], [1, 3, 2]
    history = play(FedTrip(mu=0.5, xi="inverse-gap"), b=b, samples=samples, chosen=[(0, 1), (1, 2), (0, 1)])
    wanted = [4.375, 3.771875, (4.147314453125 + 3 * 5.78515625) / 4]
    assert [w for (w,) in w_of(history)] == pytest.approx(wanted, rel=1e-6)
    memories = history[-1][1]
    kept = {k: float(memory["w_hist"]) for k, memory in memories.items()}
    assert kept == pytest.approx({0: 4.147314453125, 1: 5.78515625, 2: -0.859375}, rel=1e-6)


def test_two_rounds_of_the_plain_norm_by_hand():
    # With one parameter (w_k − w)/‖w_k − w‖ is a sign, and 0 at 0; μ/2 = ¼, rate ½.
    # Round 1: client 0: 2, then 2 + ½(2 − ¼) = 2.875. Client 1: 4, then 4 + ½(4 − ¼) = 5.875. w = 20.5/4 = 5.125.
    # Round 2: client 1, ξ = 1, history 5.875: at 5.125 only the history pushes, down: + ½(2.875 − ¼): 6.4375; there
    # the two cancel: + ½·1.5625: 7.21875. Client 2, new: 0.5625, then 0.5625 − ½(4.5625 − ¼) = −1.59375.
    method = FedTrip(mu=0.5, xi="inverse-gap", penalty="norm")
    history = play(method, b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (1, 2)])
    assert [w for (w,) in w_of(history)] == pytest.approx([5.125, (3 * 7.21875 - 2 * 1.59375) / 5], rel=1e-6)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
@pytest.mark.parametrize(("options", "xi"), RULES)
def test_the_correction_is_the_gradient_of_the_written_term(options, xi, penalty):
    mu = 0.6
    w, w_k, w_hist, initial = vectors(4)
    method = make_method("fedtrip", {"mu": mu, "penalty": penalty, **options}, model="cnn", dataset="mnist")
    memory = Memory({"w_hist": w_hist}, last_round=4)
    correction = correction_of(method, {"w": w}, memory, round_number=7, initial=initial)

    def squared(v):
        return mu / 2 * ((v - w).square().sum() - xi * (v - w_hist).square().sum())

    def norm(v):
        return mu / 2 * ((v - w).square().sum().sqrt() - xi * (v - w_hist).square().sum().sqrt())

    wanted = gradient_of({"squared": squared, "norm": norm}[penalty], w_k)
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gap", [1, 2, 9])
def test_xi_follows_the_gap(gap):
    for t in (gap + 1, 50):
        assert FedTrip(xi="inverse-gap").xi_of(t, gap) == 1 / gap
        assert FedTrip(xi="gap").xi_of(t, gap) == gap
        assert FedTrip(xi="constant", xi_value=0.25).xi_of(t, gap) == 0.25


def test_the_annealed_rule_goes_from_one_to_one_over_the_gap():
    rule = FedTrip()
    assert rule.xi_of(1, gap=9) == 1.0
    assert rule.xi_of(1000, gap=9) == pytest.approx(1 / 9)
    assert rule.xi_of(40, gap=1) == pytest.approx(1.0)
    course = [rule.xi_of(t, gap=9) for t in range(1, 50)]
    assert course == sorted(course, reverse=True)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_a_newcomer_is_prox_by_default(penalty):
    w, w_k, initial = vectors(3)
    method = FedTrip(mu=0.6, penalty=penalty)
    correction = correction_of(method, {"w": w}, Memory(), round_number=5, initial=initial)
    wanted = 0.6 * (w_k - w) if penalty == "squared" else 0.3 * (w_k - w) / (w_k - w).norm()
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


def test_a_newcomer_may_have_no_regulariser():
    w, initial = vectors(2)
    assert correction_of(FedTrip(first="none"), {"w": w}, Memory(), round_number=5, initial=initial) is None


@pytest.mark.parametrize(("xi", "value"), [("inverse-gap", 1 / 5), ("gap", 5.0), ("constant", 1.0)])
def test_a_newcomer_may_have_the_initial_model_as_history_with_gap_t(xi, value):
    w, w_k, initial = vectors(3)
    method = FedTrip(mu=0.6, xi=xi, first="initial")
    correction = correction_of(method, {"w": w}, Memory(), round_number=5, initial=initial)
    wanted = 0.6 * ((w_k - w) + value * (initial - w_k))
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


def test_a_plain_norm_that_is_zero_gives_a_zero_term():
    w, w_hist, initial = vectors(3)
    memory = Memory({"w_hist": w_hist}, last_round=1)
    method = FedTrip(mu=0.8, penalty="norm", xi="constant", xi_value=0.5)
    correction = correction_of(method, {"w": w}, memory, round_number=2, initial=initial)
    away = (w - w_hist) / (w - w_hist).norm()
    torch.testing.assert_close(added(correction, w), -0.4 * 0.5 * away, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(added(correction, w_hist), -0.4 * away, rtol=1e-5, atol=1e-6)
    both = correction_of(method, {"w": w}, Memory({"w_hist": w}, 1), round_number=2, initial=initial)
    assert torch.equal(added(both, w), torch.zeros_like(w))


def test_the_plain_norm_has_bounded_length():
    w, w_k, w_hist, initial = vectors(4)
    memory = Memory({"w_hist": w_hist}, last_round=1)
    correction = correction_of(
        FedTrip(mu=0.8, xi="inverse-gap", penalty="norm"), {"w": w}, memory, round_number=3, initial=initial
    )
    assert added(correction, 1e4 * w_k).norm() < 0.4 * (1 + 1 / 2) + 1e-5


def test_the_client_keeps_what_it_uploads():
    history = play(FedTrip(mu=0.5, xi="inverse-gap"), b=[[4.0], [8.0]], samples=[1, 1], chosen=[(0,), (1,)])
    assert float(history[1][1][0]["w_hist"]) == 2.5  # of round 1, not changed by round 2


def test_the_papers_mu_is_one_for_the_mlp():
    for way_to_ask in ({"reach": 0.0}, {"penalty": "norm"}, preset_options("paper", "fedtrip")):
        for model, mu in (("mlp", 1.0), ("cnn", 0.4)):
            method = make_method("fedtrip", way_to_ask, model=model, dataset="mnist")
            assert (method.mu, method.reach) == (mu, 0.0)


def test_a_round_with_mu_from_its_reach_by_hand():
    # Rate ½, two steps, no momentum: a gradient of one is followed 1 far, so a reach of ¼ makes μ = ¼.
    # Round 1, new: w ← w + ½(8 − w − ¼w): 4, 5.5. Round 2, ξ = 1: nothing lies between w_hist = w = 5.5:
    # w ← w/2 + 4: 6.75, 7.375. Client 1 (b −4): −2, −2.75; then ξ = 1: −3.375, −3.6875.
    method = FedTrip(mu="auto", reach=0.25, xi="inverse-gap")
    for b, wanted in ((8.0, [5.5, 7.375]), (-4.0, [-2.75, -3.6875])):
        history = play(method, b=[[b]], samples=[1], chosen=[(0,), (0,)])
        assert [w for (w,) in w_of(history)] == pytest.approx(wanted)
    # Two clients: w = (5.5 − 2.75)/2 = 1.375, and the term is the constant ¼(w_hist − w) = ±1.03125.
    history = play(method, b=[[8.0], [-4.0]], samples=[1, 1], chosen=[(0, 1), (0,)])
    first = 1.375 / 2 + 4 - 1.03125 / 2
    assert w_of(history)[1] == pytest.approx([first / 2 + 4 - 1.03125 / 2])


@pytest.mark.parametrize(("steps", "lr"), [(40, 1e-4), (8, 1e-4), (40, 2e-5)])
def test_a_term_with_xi_one_pushes_a_client_as_far_as_its_reach(steps, lr):
    # With so small a rate the loss does nothing, and only the term is left.
    w, w_hist, initial = vectors(3)
    local = QuadraticLocal(w.tolist(), round_number=2, lr=lr, steps=steps, initial=initial, momentum=0.9)
    reply = FedTrip(reach=0.7, xi="inverse-gap").client({"w": w}, Memory({"w_hist": w_hist}, 1), local)
    torch.testing.assert_close(reply.upload["w"] - w, 0.7 * (w - w_hist), rtol=0.02, atol=1e-4)


def test_mu_is_automatic_unless_it_is_given():
    default = make_method("fedtrip", {}, model="mlp", dataset="mnist")
    assert default == FedTrip() == FedTrip(mu="auto", reach=FedTrip.reach)
    assert default.weight(travel=5.0) == FedTrip.reach / 5
    assert make_method("fedtrip", {"mu": 0.4}, model="mlp", dataset="mnist") == FedTrip(mu=0.4)
    assert FedTrip(mu=0.4).weight(travel=100.0) == 0.4
    assert FedTrip(mu=0.4) == FedTrip(mu=0.4, reach=0.0), "a reach without effect makes no other method"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mu": 0.4, "reach": 2.0}, "option 'reach' is 2.0; accepted with mu=0.4: 0"),
        ({"mu": "auto", "penalty": "norm"}, "option 'mu' is 'auto'; accepted with penalty=norm or reach=0: a number"),
        ({"mu": "auto", "reach": 0.0}, "option 'mu' is 'auto'; accepted with penalty=norm or reach=0: a number"),
        ({"mu": "much"}, "option 'mu' is 'much'; accepted: a valid number or 'auto'"),
        ({"reach": "far"}, "option 'reach' is 'far'; accepted: a valid number"),
    ],
)
def test_options_that_contradict_each_other_are_explained(options, told):
    with pytest.raises(UserError) as problem:
        make_method("fedtrip", options, model="cnn", dataset="mnist")
    assert told in str(problem.value)


@pytest.mark.parametrize(("momentum", "kept"), [(0.0, False), (0.9, False), (0.9, True)])
def test_runs_like_the_reference_with_mu_from_its_reach(momentum, kept):
    setting = Setting(momentum=momentum, keep_optimizer_state=kept)
    assert_follows(setting, "fedtrip", reach=0.5)
    model = setting.run("fedtrip", reach=0.5).module.state_dict()
    assert apart(model, run_naive(setting, "fedtrip", reach=1.0)[0]) > 1e-3


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"xi": "inverse-gap"},
        {"xi": "gap"},
        {"xi_rounds": 2.0},
        {"xi": "constant", "xi_value": 0.7},
        {"penalty": "norm", "xi": "inverse-gap"},
        {"penalty": "norm", "xi": "gap"},
        {"first": "none"},
        {"first": "initial"},
        {"first": "initial", "penalty": "norm", "xi": "gap"},
    ],
    ids=lambda options: ",".join(map(str, options.values())),
)
def test_runs_like_the_reference(options, momentum):
    setting = Setting(momentum=momentum)
    assert gaps(setting) == ({1, 2, 3, 4}, 3)  # every kind of client takes part
    assert_follows(setting, "fedtrip", mu=0.4, **options)


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


def test_the_literal_gap_with_squared_norms_diverges():
    # READING.md: unbounded below. A test of the sign: the history pushes away.
    method = FedTrip(mu=4.0, xi="gap")
    b = [[4.0], [8.0], [-4.0]]
    history = play(method, b=b, samples=[1, 1, 1], chosen=[(0, 1, 2), (0,), (1,), (2,)] * 4)
    assert not abs(w_of(history)[-1][0]) < 100
    assert math.isfinite(w_of(history)[1][0])
