"""FedACG: v = w + λm is sent; step g + μ(w_k − v); m ← λm + mean of (w_k − v), w ← w + m; uniform."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised
from tests.reference.uniform import SETTINGS, UniformFedAvg, UniformFedProx, bits, steps_of
from tests.reference.watching import bytes_of, run_with_failures, watched

from fedtrip.errors import UserError
from fedtrip.methods.fedacg import FedAcg
from fedtrip.methods.interface import CostSymbols, Memory, make_method

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)]}


def test_two_rounds_by_hand():
    # λ = ½, μ = ½, η = ½: w ← w/4 + b/2 + v/4. Round 1, m = 0, v = 0: client 0 (b 4) 2, 2.5; client 1 (b 8) 4, 5.
    # m = 3.75 = w (uniform, though n differs). Round 2: v = 3.75 + ½·3.75 = 5.625.
    # Client 0: 4.8125, 4.609375. Client 2 (b −4): 0.8125, −0.390625. Their mean is 2.109375 = w;
    # m = ½·3.75 + 2.109375 − 5.625 = −1.640625, which is also 2.109375 − 3.75.
    history = play(FedAcg(lam=0.5, mu=0.5), **QUADRATICS)
    assert w_of(history) == [[3.75], [2.109375]]
    assert [float(server.state["m"]) for server, _ in history] == [3.75, -1.640625]
    assert all(memory.vectors == {} for memory in history[-1][1].values())


def test_one_client_with_one_step_is_nesterovs():
    # Round 1 from 0, η = ½, b = 4: w = m = 2. Round 2, λ = ½: v = 3, w = 3 + ½ = 3.5, m = 1.5. Round 3: v = 4.25,
    # w = 4.25 − ⅛. And so on with y = w + λ(w − w_before), w ← y − η∇F(y).
    history = play(FedAcg(lam=0.5, mu=0.0), b=[[4.0]], samples=[1], chosen=[(0,)] * 8, steps=1)
    w, before, wanted = 0.0, 0.0, []
    for _ in range(8):
        y = w + 0.5 * (w - before)
        w, before = y - 0.5 * (y - 4.0), w
        wanted.append(w)
    assert wanted[:3] == [2.0, 3.5, 4.125]
    assert [w for (w,) in w_of(history)] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("mu", [0.001, 2.0])
def test_the_correction_is_the_gradient_of_the_written_term(mu):
    # (μ/2)‖w_k − v‖² with the ½, anchored at what was received.
    v, w_k, initial = vectors(3)
    correction = correction_of(FedAcg(mu=mu), {"w": v}, Memory(), round_number=4, initial=initial)
    wanted = gradient_of(lambda x: mu / 2 * (x - v).square().sum(), w_k)
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("changes", SETTINGS)
def test_without_momentum_it_is_uniform_fedprox_to_the_bit(changes, mu):
    setting = Setting(**SETTINGS[changes])
    found = bits(setting, FedAcg(lam=0.0, mu=mu))
    assert found == bits(setting, UniformFedProx(mu=mu)) != bits(setting, FedAcg(lam=0.1, mu=mu))
    assert (found == bits(setting, UniformFedAvg())) == (mu == 0)


@pytest.mark.parametrize("changes", [{}, {"momentum": 0.9, "lr": 0.03}], ids=str)
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("options", [{}, {"lam": 0.6, "mu": 0.5}], ids=str)
def test_runs_like_the_reference(changes, weight_decay, options):
    assert_follows(Setting(weight_decay=weight_decay, **changes), "fedacg", **options)


def test_batch_norm_has_no_momentum():
    assert_follows(normalised(weight_decay=0.02, rounds=4), "fedacg")


def test_a_refused_client_has_no_part():
    setting, failures = Setting(), {(2, 0), (4, 3), (5, 1)}
    state, records, model = run_with_failures(setting, failures, "fedacg")
    assert sum(len(record.refused) for record in records) > 0
    module, reference = run_naive(setting, "fedacg", failures=failures)
    assert apart(model, module) < CLOSE
    assert float(state.server.state["m"].norm()) == pytest.approx(float(reference.m.norm()), rel=1e-5)


def test_what_is_sent_is_ahead_of_the_model_and_the_momentum_is_how_that_moved():
    # v = w + λm to the bit of float32, statistics as they are; m = w_t − w_{t−1}; the model is w and not v.
    setting = normalised(rounds=4)
    wire, _, history = watched(setting, "fedacg", lam=0.7)
    for t in range(2, 5):
        (before, _), (after, _) = history[t - 2], history[t - 1]
        m, earlier = before.state["m"], history[t - 3][0].w if t > 2 else None
        for down in (down for (number, _, _), down in wire.down.items() if number == t):
            assert torch.equal(down["w"], (before.w.double() + 0.7 * m).float())
            assert not torch.equal(down["w"], before.w)
            assert torch.equal(down["buffers"], before.model["buffers"])
        if earlier is not None:
            torch.testing.assert_close(m, before.w.double() - earlier, rtol=1e-4, atol=1e-6)
        ups = [up["w"].double() for (number, _, _), up in wire.up.items() if number == t]
        torch.testing.assert_close(after.w.double(), sum(ups) / len(ups), rtol=1e-6, atol=1e-7)


def test_its_costs():
    setting = normalised(rounds=3, local_epochs=2)
    wire, records, _ = watched(setting, "fedacg")
    _, usual, _ = watched(setting, "fedavg")
    w, model = bytes_of(setting)
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * model
        assert wire.names(wire.down, record.round) == wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
        assert record.client_memory == 0
        assert record.macs - plain.macs == (2 * steps_of(setting, record.clients) + 2) * (w // 4)


def test_what_it_attaches():
    attaching = FedAcg().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (1000.0, "2K|w|", "0")
    assert not attaching.from_paper


def test_its_defaults():
    assert (FedAcg().lam, FedAcg().mu, FedAcg.momentum) == (0.85, 0.001, 0.0)


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("lam", 1, "less than 1"),
        ("lam", -0.1, "greater than or equal to 0"),
        ("lam", math.nan, "less than 1"),
        ("mu", -0.1, "greater than or equal to 0"),
        ("mu", math.inf, "finite"),
        ("mu", "much", "number"),
    ],
)
def test_bad_options_are_refused(option, value, accepted):
    with pytest.raises(UserError, match=f"'fedacg': option '{option}' is {value!r}.*{accepted}"):
        make_method("fedacg", {option: value}, model="cnn", dataset="mnist")


@pytest.mark.parametrize("wrong", ["Δ against w", "a model that is ahead", "w is sent", "weighted by samples"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    right = FedAcg.aggregate

    def aggregate(self, server, uploads):
        if wrong == "Δ against w":  # λm counts twice
            m = self.lam * server.state["m"] + uploads.mean("w") - server.w
            return server.updated(w=server.w + m, m=m)
        after = right(self, server, uploads)
        return after.updated(w=after.w + self.lam * after.state["m"])

    if wrong == "w is sent":
        monkeypatch.setattr(FedAcg, "broadcast", lambda _self, server: server.model)
    elif wrong == "weighted by samples":
        monkeypatch.setattr(FedAcg, "weighting", "samples")
    else:
        monkeypatch.setattr(FedAcg, "aggregate", aggregate)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, 0.0, {})


def test_statistics_that_are_sent_ahead_are_caught(monkeypatch):
    right = FedAcg.broadcast

    def broadcast(self, server):
        sent = right(self, server)
        return {**sent, "buffers": 1.1 * sent["buffers"]} if "buffers" in sent else sent

    monkeypatch.setattr(FedAcg, "broadcast", broadcast)
    for test in (test_batch_norm_has_no_momentum,
                 test_what_is_sent_is_ahead_of_the_model_and_the_momentum_is_how_that_moved):  # fmt: skip
        with pytest.raises(AssertionError):
            test()
