"""FedDANE: exchange 1, g_t ← mean of ∇F_k(w); exchange 2, the same clients: step g + (g_t − ∇F_k(w)) + μ(w_k − w)."""

import math
from dataclasses import replace

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.watching import Wire, advance, bytes_of, named, watched
from torch import nn

from fedtrip.methods.feddane import FedDane
from fedtrip.methods.interface import Memory
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import RunEnded, initial_state


def test_two_rounds_by_hand():
    # μ = ½, η = ½. Round 1 at 0: gradients −4 and −8, weighted by 1 and 3: g_t = −7. Client 0 steps by
    # (w − 4) + (−7 + 4) + w/2, client 1 by (w − 8) + (−7 + 8) + w/2, the same: w ← w/4 + 3.5: 3.5, 4.375.
    # Round 2 at 4.375: gradients 0.375 and 8.375, weighted by 1 and 2: g_t = 17.125/3. The way d = w_k − w goes
    # d ← d/4 − g_t/2: −g_t/2, −5g_t/8.
    history = play(FedDane(mu=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    g_t = 17.125 / 3
    assert [w for (w,) in w_of(history)] == pytest.approx([4.375, 4.375 - 5 / 8 * g_t], rel=1e-6)
    assert [float(server.state["g_t"]) for server, _ in history] == pytest.approx([-7.0, g_t], rel=1e-6)
    assert all(memory.vectors == {} for memory in history[-1][1].values())  # nothing is kept after the round


@pytest.mark.parametrize("mu", [0.0, 0.1, 2.0])
def test_the_correction_is_the_gradient_of_the_written_term(mu):
    w, w_k, gradient, g_t, initial = vectors(5)
    memory = Memory({"w": w, "gradient": gradient}, last_round=4)
    correction = correction_of(FedDane(mu=mu), {"g_t": g_t}, memory, round_number=4, initial=initial, exchange=1)

    def term(v):
        return (g_t - gradient).double() @ v + mu / 2 * (v - w).square().sum()

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("changes", [{}, {"weight_decay": 0.05, "local_epochs": 2}], ids=str)
def test_runs_like_the_reference(changes, momentum):
    assert_follows(Setting(momentum=momentum, **changes), "feddane", mu=0.4)


def test_momentum_is_kept_over_both_exchanges():
    setting = Setting(momentum=0.9, keep_optimizer_state=True, lr=0.05)
    assert_follows(setting, "feddane")
    assert apart(setting.run("feddane").state, run_naive(setting.but(keep_optimizer_state=False), "feddane")[0]) > 1e-3


def test_batch_norm_trains_from_the_global_statistics():
    assert_follows(normalised(weight_decay=0.02, rounds=4), "feddane", mu=0.3)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch-norm-and-dropout"])
def test_a_single_client_without_proximal_term_is_fedavg_to_the_bit(momentum, norm):
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)) if norm else Net())
    setting = Setting(
        module=module, pairs=samples([11]), per_round=1, momentum=momentum, weight_decay=0.01, local_epochs=2
    )
    assert setting.run("feddane", mu=0.0).model_sha256 == setting.run("fedavg").model_sha256
    assert setting.run("feddane", mu=0.2).model_sha256 == setting.run("fedprox", mu=0.2).model_sha256
    assert setting.run("feddane", mu=0.2).model_sha256 != setting.run("fedavg").model_sha256


def test_it_reaches_the_optimum_of_all_clients_together():
    b = [[4.0], [8.0], [-14.0]]
    history = play(FedDane(mu=0.1), b=b, samples=[1, 1, 1], chosen=[(0, 1, 2)] * 15, steps=3)
    assert w_of(history)[-1] == [pytest.approx(-2 / 3, abs=1e-4)]


def test_what_travels_in_the_two_exchanges():
    setting = normalised(rounds=3)
    wire, records, history = watched(setting, "feddane")
    w, model = bytes_of(setting)
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (w + model)
        assert wire.names(wire.down, record.round, 0) == {"w", "buffers", "counters"}
        assert wire.names(wire.up, record.round, 0) == {"gradient"}
        assert wire.names(wire.down, record.round, 1) == {"g_t"}
        assert wire.names(wire.up, record.round, 1) == {"w", "buffers", "counters"}
        assert record.client_memory == 0
        asked = [{k for (t, e, k) in wire.down if (t, e) == (record.round, exchange)} for exchange in (0, 1)]
        assert asked[0] == asked[1] == set(record.clients)  # the same clients
        g_t = history[record.round - 1][0].state["g_t"]
        n = {k: len(setting.pairs[k][1]) for k in record.clients}
        gradients = {k: wire.up[record.round, 0, k]["gradient"].double() for k in record.clients}
        torch.testing.assert_close(g_t, sum(n[k] * v for k, v in gradients.items()) / sum(n.values()))
        assert all(torch.equal(wire.down[record.round, 1, k]["g_t"], g_t.float()) for k in record.clients)


class Failing(Wire):
    """Some gradients or models that come up are NaN, by (round, exchange, client)."""

    def __init__(self, federation, failures):
        super().__init__(federation)
        self._failures = failures

    def work(self, jobs):
        for job, outcome in zip(jobs, super().work(jobs), strict=True):
            if (job.round, job.exchange, job.client) in self._failures:
                spoilt = {name: torch.full_like(v, math.nan) for name, v in outcome.upload.items()}
                yield replace(outcome, upload=spoilt)
            else:
                yield outcome


def run_failing(setting, failures, **options):
    federation = setting.federation("feddane", **options)
    wire, state = Failing(federation, failures), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        records = [advance(federation, wire, state) for _ in range(setting.rounds)]
    return wire, records, state, named(federation, state.server.model)


def test_who_is_refused_in_the_first_exchange_is_not_asked_in_the_second():
    setting = Setting(per_round=4, momentum=0.9, keep_optimizer_state=True, rounds=2)
    k = setting.chosen(2)[1]
    wire, (first, second), state, model = run_failing(setting, {(2, 0, k)}, mu=0.3)
    assert first.refused == {}
    assert second.refused == {k: "'gradient' is not finite"}
    assert (2, 0, k) in wire.down
    assert (2, 1, k) not in wire.down
    w = bytes_of(setting)[0]
    assert (second.bytes_down, second.bytes_up) == (4 * w + 3 * w, 4 * w + 3 * w)
    came = {c for t, e, c in wire.up if (t, e) == (2, 1)}
    assert came == set(setting.chosen(2)) - {k}
    # as if the client had not been chosen at all
    module, _ = run_naive(NotChosen(setting, {(2, k)}), "feddane", mu=0.3)
    assert apart(model, module) < CLOSE
    assert state.memories.get(k).last_round == (1 if k in setting.chosen(1) else None)


class NotChosen:
    """A setting in which some clients are not chosen in some rounds."""

    def __init__(self, setting, absent):
        self._setting, self._absent = setting, absent

    def __getattr__(self, name):
        return getattr(self._setting, name)

    def chosen(self, number):
        return [k for k in self._setting.chosen(number) if (number, k) not in self._absent]


def test_who_is_refused_in_the_second_exchange_has_given_its_gradient_and_keeps_its_memory():
    setting = Setting(per_round=5, momentum=0.9, keep_optimizer_state=True, rounds=2)
    _, records, state, model = run_failing(setting, {(2, 1, 3)}, mu=0.3)
    assert list(records[1].refused) == [3]
    module, _ = run_naive(setting, "feddane", failures={(2, 3)}, mu=0.3)
    assert apart(model, module) < CLOSE
    _, _, before, _ = run_failing(setting.but(rounds=1), set(), mu=0.3)
    kept = state.memories.get(3)
    assert kept.last_round == 1
    assert kept.vectors == {}
    (momentum,) = kept.optimizer  # the only training of the round is in the second exchange
    assert torch.equal(kept.optimizer[momentum], before.memories.get(3).optimizer[momentum])


@pytest.mark.parametrize("exchange", [0, 1])
def test_an_exchange_without_uploads_ends_the_run_with_the_state_before(exchange):
    setting = Setting(rounds=3)
    federation = setting.federation("feddane")
    failures = {(2, exchange, k) for k in range(5)}
    wire, state = Failing(federation, failures), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        advance(federation, wire, state)
        w, g_t = state.server.w.clone(), state.server.state["g_t"].clone()
        with pytest.raises(RunEnded, match="round 2: none of the 2 uploads"):
            one_round(federation, wire, state)
    assert state.round == 1
    assert torch.equal(state.server.w, w)
    assert torch.equal(state.server.state["g_t"], g_t)
