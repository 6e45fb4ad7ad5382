"""FedDC: step g + α(w_k − w + h_k) + (c − c_k); h_k ← h_k + Δ_k, c_k⁺ = c_k − c + (w − w_k)/(Kη); H ← H + (1/N)ΣΔ_k,
w ← w̄ + H, c ← c + (1/N)Σ(c_k⁺ − c_k). Kept in FedDyn's form: λ_k = −αh_k, h = −αH."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised
from tests.reference.uniform import SETTINGS, Decayed, bits, steps_of
from tests.reference.watching import bytes_of, named, run_with_failures, watched

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.feddc import FedDc
from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.interface import CostSymbols, Memory, make_method
from fedtrip.methods.scaffold import Scaffold

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)]}


def test_two_rounds_by_hand():
    # α = η = ½, K = 2, so Kη = 1; N = 3. A step is w_k ← w_k/4 + b/2 + (w − h_k)/4 − (c − c_k)/2.
    # Round 1, all zero: client 0 (b 4) 2, 2.5; client 1 (b 8) 4, 5. h_k = 2.5, 5; c_k = −2.5, −5. H = 7.5/3 = 2.5,
    # c = −2.5; w = 3.75 + 2.5 = 6.25 (uniform, though n differs).
    # Round 2: client 0 has c_k = c and w − h_0 = 3.75: 4.5, 4.0625. Client 2 (b −4, h = c_2 = 0): w_k/4 − 2 + 1.5625 +
    # 1.25: 2.375, 1.40625. Δ = −2.1875, −4.84375. h_0 = 0.3125, h_2 = −4.84375.
    # c_0 = −2.5 + 2.5 + 2.1875, c_2 = 2.5 + 4.84375 = 7.34375. H = 2.5 − 7.03125/3 = 0.15625,
    # w = 2.734375 + 0.15625; c = −2.5 + (4.6875 + 7.34375)/3.
    history = play(FedDc(alpha=0.5), **QUADRATICS)
    assert [w for (w,) in w_of(history)] == pytest.approx([6.25, 2.890625], rel=1e-6)
    assert [-float(server.state["h"]) / 0.5 for server, _ in history] == pytest.approx([2.5, 0.15625], rel=1e-6)
    assert [float(server.state["c"]) for server, _ in history] == pytest.approx([-2.5, -2.5 + 12.03125 / 3], rel=1e-6)
    kept = history[-1][1].items()
    assert {k: -float(memory["lambda_k"]) / 0.5 for k, memory in kept} == {0: 0.3125, 1: 5.0, 2: -4.84375}
    assert {k: float(memory["c_k"]) for k, memory in kept} == {0: 2.1875, 1: -5.0, 2: 7.34375}


@pytest.mark.parametrize("alpha", [0.01, 1.0])
@pytest.mark.parametrize("new", [True, False])
def test_the_correction_is_the_gradient_of_the_written_term(alpha, new):
    # (α/2)‖w_k − (w − h_k)‖² + ⟨c − c_k, w_k⟩
    w, w_k, h_k, c, c_k, initial = vectors(6)
    memory = Memory() if new else Memory({"lambda_k": -alpha * h_k, "c_k": c_k}, last_round=1)
    correction = correction_of(FedDc(alpha=alpha), {"w": w, "c": c}, memory, round_number=4, initial=initial)
    drift, control = (torch.zeros(7), torch.zeros(7)) if new else (h_k, c_k)

    def term(v):
        return alpha / 2 * (v - (w - drift)).square().sum() + (c - control).double() @ v

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


@dataclass(frozen=True)
class WithoutC(FedDc):
    """FedDC whose control variates stay zero"""

    def next_c_k(self, c_k, received, w_k, local):  # noqa: ARG002
        return c_k


@pytest.mark.parametrize("alpha", [0.1, 0.4])
@pytest.mark.parametrize("changes", SETTINGS)
def test_without_control_variates_it_is_feddyn_to_the_bit(changes, alpha):
    setting = Setting(**SETTINGS[changes])
    assert bits(setting, WithoutC(alpha=alpha)) == bits(setting, FedDyn(alpha=alpha)) != bits(setting, FedDc(alpha))


@dataclass(frozen=True)
class WithoutH(FedDc):
    """FedDC whose server takes the mean and nothing more"""

    def aggregate(self, server, uploads):
        return server.updated(w=uploads.mean("w"), c=self.next_c(server, uploads))


def test_without_a_pull_and_without_h_it_is_scaffold():
    chosen = [(0, 1), (0, 2), (1,), (0, 1, 2), (2, 0)]
    history, wanted = (
        play(method, **{**QUADRATICS, "chosen": chosen, "steps": [1, 3, 2]}, lr=0.3)
        for method in (WithoutH(alpha=0.0), Scaffold())
    )
    for (server, memories), (other, others) in zip(history, wanted, strict=True):
        torch.testing.assert_close(server.w, other.w)
        torch.testing.assert_close(server.state["c"], other.state["c"])
        for k, memory in memories.items():
            torch.testing.assert_close(memory["c_k"], others[k]["c_k"])
    assert abs(float(wanted[-1][0].w)) > 0.1


def test_without_a_pull_and_without_h_a_run_is_scaffolds_to_rounding():
    setting = Setting(weight_decay=0.02)
    described = setting.experiment("fedavg").but(method=WithoutH(alpha=1e-9))
    state = fedtrip.run(described, model=setting.module, data=setting.data, workers=1).state
    assert apart(state, setting.run("scaffold").module) < 1e-6
    assert apart(setting.run("feddc").state, setting.run("scaffold").module) > 1e-3


@pytest.mark.parametrize("failures", [set(), {(2, 0)}, {(1, 2), (5, 1)}], ids=str)
def test_the_server_has_the_means_over_all_clients(failures):
    # H = (1/N)Σh_k and c = (1/N)Σc_k, where clients that never took part, or were refused, count with what they had.
    setting = Setting(weight_decay=0.03)
    federation = setting.federation("feddc", alpha=0.2)
    state, records, model = run_with_failures(setting, failures, "feddc", alpha=0.2)
    assert sum(len(record.refused) for record in records) == len(failures)
    kept = [memory for memory in (state.memories.get(k) for k in range(5)) if not memory.is_new]
    module, reference = run_naive(setting, "feddc", failures=failures, alpha=0.2)
    assert apart(model, module) < CLOSE
    for name, of_client, scale, wanted in (("h", "lambda_k", -0.2, reference.h), ("c", "c_k", 1.0, reference.c)):
        mean = sum(memory[of_client].double() for memory in kept) / 5
        torch.testing.assert_close(state.server.state[name], mean, rtol=1e-4, atol=1e-6)
        found = named(federation, {"w": (state.server.state[name] / scale).float()})
        got = torch.cat([found[one].reshape(-1) for one, _ in setting.module.named_parameters()])
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-5)
        assert wanted.norm() > 0.01


def test_k_and_the_rate_are_those_of_the_clients_own_round():
    # The pitfall: Kη of the mean client, at the rate before its decay.
    setting = Decayed(rounds=4)
    wire, _, history = watched(setting, "feddc", alpha=0.2)
    for (t, _, k), up in wire.up.items():
        down, way = wire.down[t, 0, k], wire.down[t, 0, k]["w"] - up["w"]
        wanted = way / (steps_of(setting, [k]) * setting.rate(t)) - down["c"]
        torch.testing.assert_close(up["delta_c"], wanted, rtol=1e-4, atol=1e-5)
        before = history[t - 2][1][k] if t > 1 else Memory()
        old = torch.zeros_like(up["w"]) if before.is_new else before["c_k"]
        torch.testing.assert_close(history[t - 1][1][k]["c_k"] - old, up["delta_c"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"local_epochs": 2, "weight_decay": 0.05}, {"momentum": 0.5, "lr": 0.03}])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_runs_like_the_reference(changes, alpha):
    assert_follows(Setting(**changes), "feddc", alpha=alpha)


def test_batch_norm_is_outside_all_states():
    assert_follows(normalised(weight_decay=0.02, rounds=4), "feddc", alpha=0.3)


def test_it_reaches_the_optimum_of_all_clients_together():
    b = [[4.0], [8.0], [-14.0]]
    history = play(FedDc(alpha=0.5), b=b, samples=[1, 1, 1], chosen=[(0, 1, 2)] * 60, steps=3, lr=0.2)
    assert w_of(history)[-1] == [pytest.approx(-2 / 3, abs=1e-4)]


def test_its_costs():
    setting = normalised(rounds=3, local_epochs=2)
    wire, records, _ = watched(setting, "feddc")
    _, usual, _ = watched(setting, "fedavg")
    (w, model), sent = bytes_of(setting), {"w", "buffers", "counters"}
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * (model + w)
        assert wire.names(wire.down, record.round) == sent | {"c"}
        assert wire.names(wire.up, record.round) == sent | {"delta_c"}
        assert record.client_memory == 2 * w
        # two operations a step; on the server its own step, and a second vector of each client
        assert record.macs - plain.macs == (2 * steps_of(setting, record.clients) + 4 + 2) * (w // 4)


def test_what_it_attaches():
    attaching = FedDc().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert attaching.flops == 2 * (5 + 1) * 100 + 4 * 5 * 100
    assert (attaching.formula, attaching.communication) == ("2(K+1)|w| + 4K|w|", "2|w|")
    assert not attaching.from_paper


@pytest.mark.parametrize(
    ("dataset", "alpha"), [("mnist", 0.1), ("fashion-mnist", 0.1), ("cifar-10", 0.01), ("cifar-100", 0.01)]
)
def test_alpha_is_smaller_on_cifar(dataset, alpha):
    assert make_method("feddc", {}, model="cnn", dataset=dataset).alpha == alpha
    assert make_method("feddc", {"alpha": 0.3}, model="cnn", dataset=dataset).alpha == 0.3
    assert FedDc.momentum == 0.0


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(UserError, match="optimizer 'adam' does not fit method 'feddc'"):
        fedtrip.run(fedtrip.Experiment(method="feddc", optimizer="adam"), workers=1)
    setting = Setting(per_round=4)
    with pytest.raises(UserError, match="combine 'median' has no sum over clients, which method 'feddc'"):
        fedtrip.run(setting.experiment("feddc").but(combine="median"), model=setting.module, data=setting.data)


@pytest.mark.parametrize(
    ("value", "accepted"), [(0, "greater than 0"), (-1, "greater than 0"), (math.nan, "finite"), ("α", "number")]
)
def test_bad_options_are_refused(value, accepted):
    with pytest.raises(UserError, match=f"'feddc': option 'alpha' is {value!r}.*{accepted}"):
        make_method("feddc", {"alpha": value}, model="cnn", dataset="mnist")


@pytest.mark.parametrize("wrong", ["H over the round's clients", "the sign of h_k", "the sign of c", "no quadratic"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    aggregate, pull, c_k = FedDc.aggregate, FedDc.pull, FedDc.c_k
    if wrong == "H over the round's clients":
        monkeypatch.setattr(
            FedDc, "aggregate", lambda self, server, ups: aggregate(self, replace(server, clients=ups.count), ups)
        )
    elif wrong == "the sign of h_k":
        monkeypatch.setattr(FedDc, "next_lambda", lambda self, lambda_k, w, w_k: lambda_k + self.alpha * (w_k - w))
    elif wrong == "the sign of c":
        monkeypatch.setattr(
            FedDc, "c_k", lambda self, received, memory: 2 * received["c"] - c_k(self, received, memory)
        )
    else:
        monkeypatch.setattr(FedDc, "pull", lambda self, w, lambda_k: replace(pull(self, w, lambda_k), a=0.0))
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, 0.3)


def test_the_rate_before_its_decay_is_caught(monkeypatch):
    right = FedDc.next_c_k

    def next_c_k(self, c_k, received, w_k, local):
        class AtTheFirstRate:
            steps, lr = local.steps, 0.1

        return right(self, c_k, received, w_k, AtTheFirstRate())

    monkeypatch.setattr(FedDc, "next_c_k", next_c_k)
    with pytest.raises(AssertionError):
        test_k_and_the_rate_are_those_of_the_clients_own_round()
