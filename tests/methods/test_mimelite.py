"""MimeLite: w_k ← w_k − η[(1−β)g + βs], s frozen; w ← mean of w_k, s ← (1−β)·mean ∇F_k(w) + βs."""

import copy

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.naive_methods import full_gradient
from tests.reference.quadratic import QuadraticLocal, added, gradient_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised
from tests.reference.watching import bytes_of, named, run_with_failures, watched
from torch import nn

from fedtrip.methods.interface import Memory
from fedtrip.methods.mimelite import MimeLite


def test_two_rounds_by_hand():
    # β = ½, η = ½. Round 1, s = 0: w ← ¾w + b/4: client 0 (b 4) 1, 1.75; client 1 (b 8) 2, 3.5; w = 12.25/4 = 3.0625;
    # the gradients at 0 are −4 and −8, weighted by 1 and 3: −7; s = −3.5.
    # Round 2: w ← ¾w + b/4 + ¼·3.5. Client 0: 4.171875, 5.00390625; client 2 (b −4): 2.171875, 1.50390625; weights
    # 1 and 2. The gradients at 3.0625 are −0.9375 and 7.0625; s = ½·13.1875/3 − 1.75.
    history = play(MimeLite(beta=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert [w for (w,) in w_of(history)] == pytest.approx([3.0625, (5.00390625 + 2 * 1.50390625) / 3], rel=1e-6)
    assert [float(server.state["s"]) for server, _ in history] == pytest.approx([-3.5, 13.1875 / 6 - 1.75], rel=1e-6)
    assert all(memory.vectors == {} for memory in history[-1][1].values())


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9])
def test_a_step_is_the_gradient_of_the_written_objective(beta):
    # (1−β)F(w) + β⟨s, w⟩ at rate η: one step from w goes −η of its gradient.
    w, s, b, initial = vectors(4)
    local = QuadraticLocal(b.tolist(), round_number=3, lr=0.1, steps=1, initial=initial)
    reply = MimeLite(beta=beta).client({"w": w, "s": s}, Memory(), local)

    def objective(v):
        return (1 - beta) * 0.5 * (v - b).square().sum() + beta * s.double() @ v

    torch.testing.assert_close((w - reply.upload["w"]) / 0.1, gradient_of(objective, w), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(reply.upload["gradient"], w - b)
    if beta:
        scaled = (1 - beta) * added(local.corrections[0], w)
        torch.testing.assert_close(scaled, beta * s, rtol=1e-5, atol=1e-5)


def test_the_momentum_is_frozen_in_a_round():
    # Every step of a round uses the s that came down: on a flat loss, where only s moves, K steps are K equal ones.
    w, s, initial = vectors(3)

    class Flat(QuadraticLocal):
        def train(self, start, correction=None, extra_loss=None, *, lr_scale=1.0):
            self.b = start["w"]
            return super().train(start, correction, extra_loss, lr_scale=lr_scale)

    moved = [
        MimeLite(beta=0.5)
        .client({"w": w, "s": s}, Memory(), Flat(w.tolist(), round_number=2, lr=1e-4, steps=k, initial=initial))
        .upload["w"]
        - w
        for k in (1, 4)
    ]
    torch.testing.assert_close(moved[1], 4 * moved[0], rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(moved[0], -1e-4 * 0.5 * s, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"weight_decay": 0.05, "local_epochs": 2}, {"momentum": 0.9}], ids=str)
@pytest.mark.parametrize("beta", [0.4, 0.9])
def test_runs_like_the_reference(changes, beta):
    assert_follows(Setting(**changes), "mimelite", beta=beta)


def test_batch_norm_has_no_momentum():
    assert_follows(normalised(weight_decay=0.02, rounds=4), "mimelite", beta=0.6)


def test_a_refused_client_has_no_part_in_the_momentum():
    setting, failures = Setting(weight_decay=0.02), {(2, 0), (4, 3), (5, 1)}
    state, _, model = run_with_failures(setting, failures, "mimelite", beta=0.7)
    module, reference = run_naive(setting, "mimelite", failures=failures, beta=0.7)
    assert apart(model, module) < CLOSE
    assert float(state.server.state["s"].norm()) == pytest.approx(float(reference.s.norm()), rel=1e-5)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch-norm-and-dropout"])
def test_without_momentum_it_is_fedavg_with_plain_sgd_to_the_bit(weight_decay, norm):
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)) if norm else Net())
    setting = Setting(module=module, weight_decay=weight_decay, local_epochs=2)
    assert setting.run("mimelite", beta=0.0).model_sha256 == setting.run("fedavg").model_sha256
    assert setting.run("mimelite", beta=0.5).model_sha256 != setting.run("fedavg").model_sha256


def test_it_has_no_local_momentum_of_its_own():
    setting = Setting(rounds=1)
    assert setting.federation("mimelite").experiment.momentum == 0.0
    assert MimeLite.momentum == 0.0
    assert MimeLite().beta == 0.9


def test_the_gradient_that_goes_up_is_on_all_samples_at_the_global_model_without_dropout():
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5)))
    module.body[1].running_mean += 0.3
    setting = Setting(module=module, weight_decay=0.07, rounds=2)
    federation = setting.federation("mimelite")
    wire, _, _ = watched(setting, "mimelite")
    for (_, _, k), upload in wire.up.items():
        received = next(sent for (t, e, c), sent in wire.down.items() if wire.up[t, e, c] is upload)
        reference = copy.deepcopy(module)
        reference.load_state_dict(named(federation, received))
        x, y = setting.pairs[k]
        wanted = full_gradient(reference.double(), x.double(), y, 0.07)
        found = named(federation, {"w": upload["gradient"]})
        got = torch.cat([found[name].reshape(-1) for name, _ in module.named_parameters()])
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-6)


def test_the_momentum_goes_down_and_the_gradient_up():
    setting = normalised(rounds=3)
    wire, records, history = watched(setting, "mimelite")
    w, model = bytes_of(setting)
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (w + model)
        assert wire.names(wire.down, record.round) == {"w", "buffers", "counters", "s"}
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters", "gradient"}
        assert record.client_memory == 0
        sent = next(v["s"] for (t, _, _), v in wire.down.items() if t == record.round)
        before = history[record.round - 2][0].state["s"] if record.round > 1 else torch.zeros(w // 4)
        assert torch.equal(sent, before.float())
