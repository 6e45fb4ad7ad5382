"""Differential privacy: the clipped, noised sum by hand, its ε, the adaptive C, and what it refuses."""

import json
import math

import numpy as np
import pytest
import torch
from tests.reference.setting import Net, made, samples
from torch import nn

import fedtrip
from fedtrip.combining import private
from fedtrip.combining._accounting import epsilon_after, noise_for
from fedtrip.combining.interface import Plan
from fedtrip.combining.private import Private
from fedtrip.experiment.rules import make_rules
from fedtrip.families import COMBINE, METHOD, SERVER_OPTIMIZER, UPLOAD_CODEC
from fedtrip.randomness import stream

PLAN = Plan(clients=100, per_round=10, rounds=100)


def combined(rule, rows, state=None, seed=0):
    matrix = torch.tensor(rows, dtype=torch.float64)
    shares = torch.full((len(rows),), 1 / max(len(rows), 1), dtype=torch.float64)
    before = rule.start({}) if state is None else state
    means, after = rule({"w": matrix}, shares, before, stream(seed, "combining", 1, 0))
    return means["w"], after


def test_by_hand_without_noise():
    """‖(3, 4)‖ = 5 is cut to 1: (0.6, 0.8); (0.3, 0) stays; the sum over m = 4, though two answered."""
    rule = Private(noise=0.0, clip=1.0, planned=4)
    total, _ = combined(rule, [[3.0, 4.0], [0.3, 0.0]])
    assert total.tolist() == pytest.approx([(0.6 + 0.3) / 4, 0.8 / 4])


def test_every_row_is_at_most_as_long_as_the_clip_and_zero_stays_zero():
    rule = Private(noise=0.0, clip=0.7, planned=1)
    sizes = np.repeat([0.01, 1, 1e6, 1e-30, 0], 10)[:, None]
    for row in np.random.default_rng(0).standard_normal((50, 8)) * sizes:
        total, _ = combined(rule, [row.tolist()])
        assert torch.linalg.vector_norm(total) <= 0.7 * (1 + 1e-12)
        if np.linalg.norm(row) < 0.7:
            assert total.tolist() == row.tolist()


def test_a_long_clip_and_no_noise_is_the_uniform_mean():
    rows = np.random.default_rng(0).standard_normal((7, 5)).tolist()
    total, _ = combined(Private(noise=0.0, clip=1e30, planned=7), rows)
    assert total.tolist() == pytest.approx(np.mean(rows, axis=0).tolist(), rel=1e-12)


def test_the_noise_has_the_variance_that_is_counted():
    """z·C/m: of 40,000 numbers the standard deviation is known to 0.35 %, and four of these are allowed."""
    rule = Private(noise=1.5, clip=0.4, planned=8)
    noise, _ = combined(rule, [[0.0] * 40_000])
    assert float(noise.std()) == pytest.approx(1.5 * 0.4 / 8, rel=0.014)
    assert abs(float(noise.mean())) < 4 * 1.5 * 0.4 / 8 / 200
    again, _ = combined(rule, [[0.0] * 40_000])
    other, _ = combined(rule, [[0.0] * 40_000], seed=1)
    assert torch.equal(noise, again)
    assert not torch.equal(noise, other)


def test_the_noise_does_not_depend_on_who_answers():
    rule = Private(noise=1.0, clip=1.0, planned=2)
    nobody, _ = rule({"w": torch.empty((0, 3), dtype=torch.float64)}, torch.empty(0), rule.start({}), stream(0, "x"))
    one, _ = rule({"w": torch.full((1, 3), 0.1, dtype=torch.float64)}, torch.ones(1), rule.start({}), stream(0, "x"))
    assert (one["w"] - nobody["w"]).tolist() == pytest.approx([0.05] * 3)


def test_adaptive_by_hand(monkeypatch):
    """Two of four are below C = 1: b̃ = ½, and C stays. One is: Σ(b − ½) = −1, b̃ = ¼, C·e^0.05. None: b̃ = 0."""
    monkeypatch.setattr(private, "normals", lambda _rng, size: np.zeros(size))
    rule = Private(noise=0.1, clip=1.0, adaptive=True, bit_noise=0.2, planned=4)
    for rows, factor in (
        ([[0.5], [1.0], [2.0], [3.0]], 1.0),
        ([[0.5], [1.5], [2.0], [3.0]], math.exp(0.05)),
        ([[5.0], [1.5], [2.0], [3.0]], math.exp(0.1)),
        ([[0.5], [0.1], [0.2], [0.3]], math.exp(-0.1)),
    ):
        _, state = combined(rule, rows)
        assert float(state["clip"]) == pytest.approx(factor, rel=1e-12)
        total, _ = combined(rule, [[100.0]], state)
        assert float(total) == pytest.approx(factor / 4)  # what clips is the C of the state


def test_the_noise_of_a_round_is_that_of_the_clip_that_it_was_cut_with(monkeypatch):
    monkeypatch.setattr(private, "normals", lambda _rng, size: np.ones(size))
    rule = Private(noise=0.1, clip=1.0, adaptive=True, bit_noise=0.2, planned=1)
    total, after = combined(rule, [[0.0]])
    z_delta = (0.1**-2 - 0.4**-2) ** -0.5
    assert float(total) == pytest.approx(z_delta)
    assert float(after["clip"]) == pytest.approx(math.exp(-0.2 * (0.5 + 0.2)))  # the bit, and its own noise
    assert rule.noise_on_sum == pytest.approx(z_delta)


def test_adaptive_follows_the_median_norm():
    rule = Private(noise=0.0, clip=0.1, adaptive=True, bit_noise=0.5, planned=10)
    rows, state = [[float(length)] for length in range(1, 11)], None
    for seed in range(400):
        _, state = combined(rule, rows, state, seed)
    assert 4.0 < float(state["clip"]) < 7.0


WRONG = {
    "the bit says who was clipped, with the sign as it was (Flower 1.41)": ("STEP", -0.2),
    "half of the step": ("STEP", 0.1),
}


@pytest.mark.parametrize(("name", "value"), WRONG.values(), ids=WRONG)
def test_a_wrong_adaptive_rule_is_found(monkeypatch, name, value):
    monkeypatch.setattr(private, name, value)
    with pytest.raises(AssertionError):
        test_adaptive_by_hand(monkeypatch)


def test_wrong_noise_is_found(monkeypatch):
    """Noise of the mean's size put on the sum: m times too little."""
    honest = private.normals
    monkeypatch.setattr(private, "normals", lambda rng, size: honest(rng, size) / 8)
    with pytest.raises(AssertionError):
        test_the_noise_has_the_variance_that_is_counted()


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta", "epsilon"),
    [
        (0.1, 1.0, 100, 1e-3, 5.67034),
        (0.01, 1.0, 1000, 1e-5, 2.10775),
        (0.1, 2.0, 100, 1e-5, 2.58665),
        (1.0, 5.0, 50, 1e-5, 7.08786),
    ],
)
def test_epsilon_is_what_was_computed_elsewhere(rate, noise, rounds, delta, epsilon):
    assert epsilon_after(rounds, rate, noise, delta) == pytest.approx(epsilon, abs=6e-6)
    assert epsilon_after(rounds, rate, noise, delta) == pytest.approx(_by_formula(rate, noise, rounds, delta), rel=1e-9)


def _by_formula(q, z, rounds, delta):
    """The integer orders of Mironov, Talwar and Zhang (2019), written down again."""

    def divergence(alpha):
        if q == 1:
            return alpha / (2 * z * z)
        terms = [
            math.lgamma(alpha + 1) - math.lgamma(j + 1) - math.lgamma(alpha - j + 1)
            + (alpha - j) * math.log1p(-q) + j * math.log(q) + j * (j - 1) / (2 * z * z)
            for j in range(alpha + 1)
        ]  # fmt: skip
        return np.logaddexp.reduce(terms) / (alpha - 1)

    return min(
        rounds * divergence(a) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1) for a in range(2, 129)
    )


def test_one_round_after_the_other_is_what_the_accountant_says():
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    from fedtrip.combining._accounting import ORDERS

    event = dp_accounting.PoissonSampledDpEvent(0.4, dp_accounting.GaussianDpEvent(1.3))
    for rounds in (1, 7):
        accountant = RdpAccountant(list(ORDERS)).compose(event, rounds)
        assert epsilon_after(rounds, 0.4, 1.3, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-12)
    assert epsilon_after(0, 0.4, 1.3, 1e-5) == 0.0


def test_the_noise_that_is_solved_for_just_keeps_to_epsilon():
    for epsilon in (0.5, 2.58665, 8.0):
        noise = noise_for(epsilon, 1e-5, 0.1, 100)
        assert epsilon_after(100, 0.1, noise, 1e-5) <= epsilon
        assert epsilon_after(100, 0.1, noise * 0.998, 1e-5) > epsilon
        assert noise == float(f"{noise:.4g}")
    assert noise_for(2.5867, 1e-5, 0.1, 100) == pytest.approx(2.0, rel=1e-3)


def refused(rule, plan=PLAN):
    with pytest.raises(fedtrip.UserError) as caught:
        COMBINE.make(rule).as_planned(plan)
    return str(caught.value)


def test_bad_options_are_refused_by_name():
    assert "does not say how private" in refused("private")
    assert "noise 1.0 and epsilon 8.0; accepted: one of the two" in refused({"name": "private:1", "epsilon": 8.0})
    assert "delta 0.01" in refused({"name": "private:1", "delta": 0.01})
    assert "accepted: below 0.01" in refused({"name": "private:1", "delta": 0.01})
    told = refused({"name": "private:1", "adaptive": True})
    assert "z = 1 and bit_noise σ_b = 0.5" in told
    assert "above z/2 = 0.5" in told
    assert "only with adaptive=true" in refused({"name": "private:1", "bit_noise": 3.0})
    for bad in ({"noise": -1.0}, {"clip": 0.0}, {"clip": math.inf}, {"epsilon": 0.0}, {"delta": 1.0}, {"planned": 0}):
        with pytest.raises(fedtrip.UserError, match=next(iter(bad))):
            COMBINE.make({"name": "private", **bad})


def test_without_the_library_it_is_refused(monkeypatch):
    monkeypatch.setattr("fedtrip.combining._accounting.find_spec", lambda _name: None)
    assert "fedtrip[privacy]" in refused("private:1")


# In runs

PAIRS = samples((12, 18, 12, 24, 6, 18, 12))
MODULE = made(Net)


def experiment(**fields):
    return fedtrip.Experiment(
        **{"rounds": 3, "per_round": 3, "batch_size": 6, "lr": 0.05, "method": "fedavg", "combine": "private:0.8"}
        | fields
    )


def run(described, model=MODULE, **options):
    data = fedtrip.from_clients(PAIRS, PAIRS[0], mean=0.0, std=1.0)
    return fedtrip.run(described, model=model, data=data, **{"workers": 1, **options})


@pytest.mark.parametrize("extra", [{}, {"adaptive": True, "bit_noise": 2.0}], ids=["fixed", "adaptive"])
def test_a_run_says_what_it_costs_and_repeats_itself(tmp_path, extra):
    described = experiment(combine={"name": "private:0.8", "clip": 0.5, **extra}, rounds=4)
    result = run(described, out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["epsilon"] for line in lines] == [epsilon_after(t, 3 / 7, 0.8, 1e-5) for t in (1, 2, 3, 4)]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["epsilon"] == lines[-1]["epsilon"]
    for words in ("δ = 1e-05", "after 4 rounds", "added or removed", "z = 0.8", "C ", "Not covered", "0.4286"):
        assert words in summary["privacy"]
    stored = fedtrip.Experiment.from_toml(tmp_path / "run/experiment.toml")
    assert stored.select.name == "poisson"
    assert stored.combine.options["planned"] == 3
    assert run(stored).model_sha256 == result.model_sha256
    assert run(described, workers=2).model_sha256 == result.model_sha256
    assert run(described.but(seed=1)).model_sha256 != result.model_sha256

    class Killed(Exception):
        pass

    def kill(record):
        if record.round == 2:
            raise Killed

    with pytest.raises(Killed):
        run(described, out=tmp_path / "again", on_round=kill)
    assert run(described, out=tmp_path / "again", resume=True).model_sha256 == result.model_sha256


def test_epsilon_in_place_of_noise():
    result = run(experiment(combine={"name": "private", "epsilon": 20.0}))
    assert 19.5 < result.records[-1].epsilon <= 20.0
    used = COMBINE.make(result.experiment.combine)
    assert used.epsilon is None  # what a run stores is the noise
    longer = run(experiment(combine={"name": "private", "epsilon": 20.0}, rounds=6))
    assert COMBINE.make(longer.experiment.combine).noise > used.noise


def test_a_round_without_clients_adds_noise_alone():
    result = run(experiment(per_round=1, rounds=12))
    empty = [record for record in result.records[1:-1] if not record.clients]
    assert empty, "seed 0 has none: take another"
    assert not any(record.unchanged for record in empty)
    digests = [run(experiment(per_round=1, rounds=rounds)).model_sha256 for rounds in (empty[0].round, 12)]
    before = run(experiment(per_round=1, rounds=empty[0].round - 1)).model_sha256
    assert len({*digests, before}) == 3


def test_clients_that_drop_out_change_no_divisor():
    """m stays: with everybody gone, the model moves by noise alone, and ε is the same."""
    result = run(experiment(attack="dropout:1"))
    assert all(record.epsilon is not None for record in result.records)
    assert result.records[-1].epsilon == run(experiment()).records[-1].epsilon


def test_no_noise_and_a_long_clip_are_fedavg_with_equal_weights():
    """All clients in every round (q = 1), equal sizes: FedAvg's own weights are equal."""
    pairs = samples((12,) * 4)
    data = fedtrip.from_clients(pairs, pairs[0], mean=0.0, std=1.0)
    rule = {"name": "private:0", "clip": 1e9}
    mine = fedtrip.run(experiment(per_round=4, combine=rule), model=MODULE, data=data, workers=1)
    plain = fedtrip.run(experiment(per_round=4, combine="mean"), model=MODULE, data=data, workers=1)
    for name, tensor in plain.state.items():
        assert torch.allclose(mine.state[name], tensor, atol=1e-6), name
    assert mine.records[-1].epsilon is None
    assert mine.summary()["privacy"] == "no privacy: the noise is 0"


def test_the_methods_that_send_more_than_a_model_are_refused_and_the_others_run():
    ran, stopped = set(), {}
    for name in METHOD.names():
        try:
            make_rules(experiment(method=name))
            ran.add(name)
        except fedtrip.UserError as problem:
            stopped[name] = str(problem)
    assert {"fedavg", "fedtrip", "fedtrip-auto", "fedprox", "moon", "fedadam", "ditto", "fedper"} <= ran
    assert {"scaffold", "mimelite", "feddane", "fednova", "feddisco", "fedexp", "feddyn", "fedcm"} <= stopped.keys()
    for name, told in stopped.items():
        assert f"method '{name}'" in told
        assert "combine 'private" in told
        assert "accepted" in told
    for name in sorted(ran):
        assert run(experiment(method=name, rounds=1)).records[0].epsilon is not None, name


@pytest.mark.parametrize("field", ["upload_codec", "server_optimizer"])
def test_codecs_and_server_optimizers_come_before_and_after(field):
    family = {"upload_codec": UPLOAD_CODEC, "server_optimizer": SERVER_OPTIMIZER}[field]
    plain = run(experiment()).model_sha256
    forms = {"topk": "topk:0.3", "randk": "randk:0.3"}
    for name in family.names():
        same = run(experiment(**{field: forms.get(name, name)})).model_sha256 == plain
        assert same == (name == "none"), name


def test_what_would_leave_without_noise_is_refused_by_name():
    for fields, words in (
        ({"select": "uniform"}, "select 'uniform'; accepted: select poisson"),
        ({"snapshot": (1,)}, "snapshot keeps the clients' own models"),
        ({"validation": 0.2, "validation_at": "clients", "keep_best": True}, "accepted: validation_at server"),
    ):
        with pytest.raises(fedtrip.UserError) as caught:
            run(experiment(**fields))
        assert words in str(caught.value)
    with pytest.raises(fedtrip.UserError, match="travels without noise; accepted: a model without"):
        run(experiment(), model=made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh())))
    run(experiment(), model=made(lambda: Net(nn.LayerNorm(5), nn.Tanh())))
