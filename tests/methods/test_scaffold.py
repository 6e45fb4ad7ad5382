"""SCAFFOLD: step g − c_k + c; c_k⁺ = ∇F_k(w) (I) or c_k − c + (w − w_k)/(Kη) (II); w ← w + η_g·mean(w_k − w);
c ← c + (1/N)Σ(c_k⁺ − c_k)."""

import copy

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.naive_methods import full_gradient
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.watching import bytes_of, named, run_with_failures, watched
from torch import nn

from fedtrip.methods.interface import Memory
from fedtrip.methods.scaffold import Scaffold

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)]}


def test_two_rounds_of_option_two_by_hand():
    # η = ½, K = 2, so Kη = 1; η_g = ½; N = 3. Round 1, all zero: w ← w/2 + b/2: client 0 (b 4) 2, 3; client 1 (b 8)
    # 4, 6. The uniform mean is 4.5, w = 2.25; c_k = −3, −6; c = −9/3 = −3.
    # Round 2: client 0 has c_k = c, so its steps are plain: 3.125, 3.5625; c_0 = −3 + 3 + (2.25 − 3.5625) = −1.3125.
    # Client 2 (b −4, c_k = 0) steps by (w + 4) − 0 − 3: w ← w/2 − ½: 0.625, −0.1875; c_2 = 0 + 3 + 2.4375 = 5.4375.
    # w = 2.25 + ½(1.6875 − 2.25) = 1.96875; c = −3 + (1.6875 + 5.4375)/3 = −0.625.
    history = play(Scaffold(eta_g=0.5), **QUADRATICS)
    assert w_of(history) == [[2.25], [1.96875]]
    assert [float(server.state["c"]) for server, _ in history] == [-3.0, -0.625]
    assert {k: float(memory["c_k"]) for k, memory in history[-1][1].items()} == {0: -1.3125, 1: -6.0, 2: 5.4375}


def test_two_rounds_of_option_one_by_hand():
    # c_k is the gradient at the global model, w − b_k. Round 1 steps as in option II: w = 2.25; c_k = −4, −8; c = −4.
    # Round 2: client 0 (c_k = c) 3.125, 3.5625; c_0 = 2.25 − 4. Client 2 steps by (w + 4) − 4: 1.125, 0.5625;
    # c_2 = 6.25. w = 2.25 + ½(2.0625 − 2.25) = 2.15625; c = −4 + (2.25 + 6.25)/3.
    history = play(Scaffold(option="I", eta_g=0.5), **QUADRATICS)
    assert w_of(history) == [[2.25], [2.15625]]
    assert [float(server.state["c"]) for server, _ in history] == pytest.approx([-4.0, -4 + 8.5 / 3], rel=1e-9)
    assert {k: float(memory["c_k"]) for k, memory in history[-1][1].items()} == {0: -1.75, 1: -8.0, 2: 6.25}


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("option", ["I", "II"])
def test_the_correction_is_the_gradient_of_the_written_term(option, new):
    w, w_k, c, c_k, initial = vectors(5)
    memory = Memory() if new else Memory({"c_k": c_k}, last_round=1)
    received = {"w": w, "c": c}
    correction = correction_of(Scaffold(option=option), received, memory, round_number=4, initial=initial)

    def term(v):
        return (c.double() if new else (c - c_k).double()) @ v

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("failures", [set(), {(2, 0)}, {(1, 2), (5, 1)}], ids=str)
def test_c_is_the_mean_of_all_clients(option, failures):
    # c = (1/N)Σ c_k over all N clients, those who never took part, or were refused, counting with what they had.
    setting = Setting(weight_decay=0.03)
    state, records, model = run_with_failures(setting, failures, "scaffold", option=option)
    assert sum(len(record.refused) for record in records) == len(failures)
    kept = [state.memories.get(k) for k in range(5)]
    mean = sum(memory["c_k"].double() for memory in kept if not memory.is_new) / 5
    torch.testing.assert_close(state.server.state["c"], mean, rtol=1e-4, atol=1e-7)
    module, reference = run_naive(setting, "scaffold", failures=failures, option=option)
    assert apart(model, module) < CLOSE
    assert float(mean.norm()) == pytest.approx(float(reference.c.norm()), rel=1e-4)
    assert mean.norm() > 0.01


def test_c_is_the_mean_of_all_clients_after_every_round():
    _, _, history = watched(Setting(rounds=8), "scaffold", eta_g=0.7)
    assert any(memory.is_new for memory in history[1][1])
    for server, memories in history:
        mean = sum(memory["c_k"].double() for memory in memories if not memory.is_new) / 5
        torch.testing.assert_close(server.state["c"], mean, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(option, weight_decay):
    assert_follows(Setting(weight_decay=weight_decay, local_epochs=2), "scaffold", option=option, eta_g=0.8)


@pytest.mark.parametrize("option", ["I", "II"])
def test_batch_norm_is_not_controlled_and_averaged_uniformly(option):
    assert_follows(normalised(weight_decay=0.02, rounds=4), "scaffold", option=option)


def test_momentum_may_be_asked_for():
    assert Scaffold.momentum == 0.0
    assert_follows(Setting(momentum=0.5, rounds=4, lr=0.03), "scaffold")


def test_option_one_takes_its_gradient_on_all_samples_without_dropout():
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5)))
    module.body[1].running_mean += 0.3
    setting = Setting(module=module, weight_decay=0.07, rounds=1)
    federation = setting.federation("scaffold", option="I")
    _, _, history = watched(setting, "scaffold", option="I")
    for k in setting.chosen(1):
        found = named(federation, {"w": history[0][1][k]["c_k"]})
        reference = copy.deepcopy(module).double()
        x, y = setting.pairs[k]
        wanted = full_gradient(reference, x.double(), y, 0.07)
        got = torch.cat([found[name].reshape(-1) for name, _ in module.named_parameters()])
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_first_round_is_fedavgs(option):
    # All control variates are zero; the uniform mean is the weighted one, as the clients have as many samples each.
    setting = Setting(pairs=samples([8] * 5), rounds=1, local_epochs=3)
    scaffold, fedavg = setting.run("scaffold", option=option), setting.run("fedavg")
    assert apart(scaffold.state, fedavg.module) < 1e-6
    second = setting.but(rounds=3)
    assert apart(second.run("scaffold", option=option).state, second.run("fedavg").module) > 1e-3


def test_it_reaches_the_optimum_of_all_clients_together():
    # Local optima far apart, several steps, but the fixed point is the optimum of the mean loss: −2/3.
    b = [[4.0], [8.0], [-14.0]]
    history = play(Scaffold(), b=b, samples=[1, 1, 1], chosen=[(0, 1, 2)] * 30, steps=3)
    assert w_of(history)[-1] == [pytest.approx(-2 / 3, abs=1e-4)]


@pytest.mark.parametrize("option", ["I", "II"])
def test_c_goes_down_and_its_change_up(option):
    setting = normalised(rounds=3)
    wire, records, history = watched(setting, "scaffold", option=option)
    w, model = bytes_of(setting)
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (w + model)
        assert wire.names(wire.down, record.round) == {"w", "buffers", "counters", "c"}
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters", "delta_c"}
        assert record.client_memory == w
    assert all(v.dtype in (torch.float32, torch.int64) for sent in wire.down.values() for v in sent.values())
    for (t, _, k), upload in wire.up.items():  # what went up is what the client added to its own
        before = history[t - 2][1][k] if t > 1 else Memory()
        old = torch.zeros(w // 4) if before.is_new else before["c_k"]
        torch.testing.assert_close(history[t - 1][1][k]["c_k"] - old, upload["delta_c"], rtol=1e-5, atol=1e-6)
