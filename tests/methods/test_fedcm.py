"""FedCM: w_k ← w_k − η[αg + (1−α)s], s frozen; s ← mean of (w − w_k)/(K_k·η), w ← w + η_g·Δ̄; uniform."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import QuadraticLocal, added, combined, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised
from tests.reference.uniform import SETTINGS, Decayed, UniformFedAvg, bits, steps_of
from tests.reference.watching import bytes_of, run_with_failures, watched

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.fedcm import FedCm
from fedtrip.methods.interface import CostSymbols, Memory, Server, Upload, make_method

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)], "steps": [1, 2, 2]}


def test_two_rounds_by_hand():
    # α = ½, η = ½, η_g = ½; K = 1, 2, 2. Round 1, s = 0: w ← ¾w + b/4: client 0 (b 4) 1; client 1 (b 8) 2, 3.5.
    # s = ½(−1/½ − 3.5/1) = −2.75; the mean is 2.25 (uniform, though n differs), w = 1.125.
    # Round 2: w ← ¾w + b/4 + ¼·2.75. Client 0: 2.53125. Client 2 (b −4): 0.53125, 0.0859375.
    # s = ½((1.125 − 2.53125)/½ + (1.125 − 0.0859375)/1) = ½(−2.8125 + 1.0390625);
    # the mean is 1.30859375, w = 1.125 + ½·0.18359375.
    history = play(FedCm(alpha=0.5, eta_g=0.5), **QUADRATICS)
    assert w_of(history) == [[1.125], [1.216796875]]
    assert [float(server.state["s"]) for server, _ in history] == [-2.75, -0.88671875]
    assert all(memory.vectors == {} for memory in history[-1][1].values())


@pytest.mark.parametrize("alpha", [0.1, 0.6, 1.0])
def test_a_step_is_the_gradient_of_the_written_objective(alpha):
    # αF(w) + (1−α)⟨s, w⟩ at rate η: one step from w goes −η of its gradient.
    w, s, b, initial = vectors(4)
    local = QuadraticLocal(b.tolist(), round_number=3, lr=0.1, steps=1, initial=initial)
    reply = FedCm(alpha=alpha).client({"w": w, "s": s}, Memory(), local)

    def objective(v):
        return alpha * 0.5 * (v - b).square().sum() + (1 - alpha) * s.double() @ v

    torch.testing.assert_close((w - reply.upload["w"]) / 0.1, gradient_of(objective, w), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(alpha * added(local.corrections[0], w), (1 - alpha) * s, rtol=1e-5, atol=1e-5)
    assert reply.keep == {}


def test_s_is_the_last_s_and_the_mean_of_all_gradients(monkeypatch):
    # s⁺ = (1−α)s + α·(mean over clients of the mean over their steps of g), however many steps each takes.
    seen, gradient_at = [], QuadraticLocal._gradient_at

    def recorded(self, w, loss, extra_loss):
        seen.append((self.round, float(self.b), w - self.b))
        return gradient_at(self, w, loss, extra_loss)

    monkeypatch.setattr(QuadraticLocal, "_gradient_at", recorded)
    chosen = [(0, 1), (0, 2), (1,), (0, 1, 2), (2, 0)]
    history = play(FedCm(alpha=0.3), **{**QUADRATICS, "chosen": chosen, "steps": [1, 4, 2]}, lr=0.2)
    s = 0.0
    for t, (server, _) in enumerate(history, 1):
        means = []
        for b in {one for number, one, _ in seen if number == t}:
            of_client = [float(g) for number, one, g in seen if (number, one) == (t, b)]
            means.append(sum(of_client) / len(of_client))
        s = 0.7 * s + 0.3 * sum(means) / len(means)
        assert float(server.state["s"]) == pytest.approx(s, rel=1e-5)
        assert abs(s) > 0.1


@pytest.mark.parametrize("changes", SETTINGS)
def test_with_the_gradient_alone_it_is_uniform_fedavg_to_the_bit(changes):
    setting = Setting(**SETTINGS[changes])
    assert bits(setting, FedCm(alpha=1.0)) == bits(setting, UniformFedAvg()) != bits(setting, FedCm(alpha=0.99))


def test_the_first_round_is_fedavg_at_a_smaller_rate_to_the_bit():
    setting = Setting(rounds=1, weight_decay=0.02, local_epochs=2)
    assert bits(setting, FedCm(alpha=0.3)) == bits(setting.but(lr=0.1 * 0.3), UniformFedAvg())


@pytest.mark.parametrize(
    "changes",
    [{}, {"weight_decay": 0.05, "local_epochs": 2}, {"momentum": 0.9, "lr": 0.03}],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"alpha": 0.4, "eta_g": 0.7}], ids=str)
def test_runs_like_the_reference(changes, options):
    assert_follows(Setting(**changes), "fedcm", **options)


def test_batch_norm_has_no_momentum():
    assert_follows(normalised(weight_decay=0.02, rounds=4), "fedcm", alpha=0.3)


def test_a_refused_client_has_no_part_in_s():
    setting, failures = Setting(weight_decay=0.02), {(2, 0), (4, 3), (5, 1)}
    state, records, model = run_with_failures(setting, failures, "fedcm", alpha=0.3)
    assert sum(len(record.refused) for record in records) > 0
    module, reference = run_naive(setting, "fedcm", failures=failures, alpha=0.3)
    assert apart(model, module) < CLOSE
    assert float(state.server.state["s"].norm()) == pytest.approx(float(reference.s.norm()), rel=1e-5)


def test_a_client_without_a_step_has_no_part_in_s():
    method, old = FedCm(), torch.tensor([5.0], dtype=torch.float64)
    server = Server({"w": torch.tensor([1.0])}, {"s": old}, 2, 0, 9, 0.1)
    stayed = Upload(0, 1, {"w": torch.tensor([1.0]), "travel": torch.tensor([0.0])})
    went = Upload(1, 1, {"w": torch.tensor([0.0]), "travel": torch.tensor([0.5])})
    assert method.aggregate(server, combined(method, [stayed, went])).state["s"].tolist() == [2.0]
    assert method.aggregate(server, combined(method, [stayed])).state["s"].tolist() == [5.0]
    assert old.tolist() == [5.0]


def test_the_rate_is_that_of_the_round_that_moved():
    setting = Decayed(rounds=3)
    wire, _, history = watched(setting, "fedcm", alpha=0.4)
    for t, (server, _) in enumerate(history, 1):
        ups = {k: up for (number, _, k), up in wire.up.items() if number == t}
        for k, up in ups.items():
            assert float(up["travel"]) == pytest.approx(steps_of(setting, [k]) * setting.rate(t), rel=1e-6)
        w = next(down["w"] for (number, _, _), down in wire.down.items() if number == t).double()
        wanted = [(w - up["w"]) / (steps_of(setting, [k]) * setting.rate(t)) for k, up in ups.items()]
        torch.testing.assert_close(server.state["s"], sum(wanted) / len(wanted), rtol=1e-5, atol=1e-6)


def test_its_costs():
    setting = normalised(rounds=3, local_epochs=2)
    wire, records, history = watched(setting, "fedcm")
    _, usual, _ = watched(setting, "fedavg")
    (w, model), sent = bytes_of(setting), {"w", "buffers", "counters"}
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == 2 * (model + w)
        assert record.bytes_up == 2 * (model + 4)
        assert wire.names(wire.down, record.round) == sent | {"s"}
        assert wire.names(wire.up, record.round) == sent | {"travel"}
        assert record.client_memory == 0
        # one addition of a fixed vector in every step, the server's step, and a number of each client more
        steps = steps_of(setting, record.clients)
        assert record.macs - plain.macs == (steps + 2 + 2 * 2) * (w // 4) + 2
        before = history[record.round - 2][0].state["s"] if record.round > 1 else torch.zeros(w // 4)
        down = next(v["s"] for (t, _, _), v in wire.down.items() if t == record.round)
        assert torch.equal(down, before.float())


def test_what_it_attaches():
    attaching = FedCm().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (1000.0, "2K|w|", "|w|")
    assert not attaching.from_paper


def test_its_defaults():
    assert (FedCm().alpha, FedCm().eta_g) == (0.1, 1.0)
    assert Setting(rounds=1).federation("fedcm").method.momentum == 0.0


def test_what_does_not_fit_is_refused_by_name():
    setting = Setting(per_round=4)
    with pytest.raises(UserError, match="optimizer 'adam' does not fit method 'fedcm'"):
        fedtrip.run(fedtrip.Experiment(method="fedcm", optimizer="adam"), workers=1)
    with pytest.raises(UserError, match="combine 'median' has no effect on method 'fedcm'"):
        fedtrip.run(setting.experiment("fedcm").but(combine="median"), model=setting.module, data=setting.data)


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("alpha", 0, "greater than 0"),
        ("alpha", 1.5, "less than or equal to 1"),
        ("alpha", math.nan, "less than or equal to 1"),
        ("eta_g", 0, "greater than 0"),
        ("eta_g", math.inf, "finite"),
        ("eta_g", "fast", "number"),
    ],
)
def test_bad_options_are_refused(option, value, accepted):
    with pytest.raises(UserError, match=f"'fedcm': option '{option}' is {value!r}.*{accepted}"):
        make_method("fedcm", {option: value}, model="cnn", dataset="mnist")


@pytest.mark.parametrize("wrong", ["divided by αKη", "the first client's K", "the sign of s", "weighted by samples"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    right = FedCm.aggregate

    def aggregate(self, server, uploads):
        after, w = right(self, server, uploads), server.w.double()
        if wrong == "divided by αKη":
            return after.updated(s=after.state["s"] / self.alpha)
        if wrong == "the first client's K":
            first = float(uploads.each()[0]["travel"])
            return after.updated(s=sum((w - up["w"]) / first for up in uploads.each()) / uploads.count)
        return after.updated(s=-after.state["s"])

    if wrong == "weighted by samples":
        monkeypatch.setattr(FedCm, "weighting", "samples")
    else:
        monkeypatch.setattr(FedCm, "aggregate", aggregate)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({"local_epochs": 2}, {"alpha": 0.4})
