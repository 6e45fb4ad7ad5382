"""An upload that is not finite is left out, its client keeps the memory it had; a round without any ends the run."""

import copy

import pytest
import torch
from tests.reference.naive import CLOSE, apart, run_naive
from tests.reference.setting import Net, Setting, made, samples
from tests.reference.watching import FailingEngine, run_with_failures
from torch import nn

from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import RunEnded, initial_state

METHODS = {
    "fedavg": {},
    "fedprox": {"mu": 0.4},
    "fedtrip": {"mu": 0.4},
    "slowmo": {},
    "moon": {},
    "feddyn": {},
    "scaffold": {},
    "mimelite": {},
    "feddane": {},
    "fedgkd": {"gamma": 4.0},
}


def relu():
    """A network that can overflow (Tanh only saturates)."""
    return Net(nn.ReLU())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("keep", [False, True], ids=["reset", "keep"])
def test_a_refused_client_is_as_if_it_had_not_been_there(name, keep):
    setting = Setting(momentum=0.9, keep_optimizer_state=keep)
    failures = {(2, 0), (4, 3), (5, 1)}
    assert all(k in setting.chosen(t) for t, k in failures)
    _, records, model = run_with_failures(setting, failures, name, **METHODS[name])
    module, _ = run_naive(setting, name, failures=failures, **METHODS[name])
    assert apart(model, module) < CLOSE
    assert {(r.round, k) for r in records for k in r.refused} == failures
    assert all(r.clients == setting.chosen(r.round) for r in records)
    for record in records:
        assert all("not finite" in reason for reason in record.refused.values())


def test_a_refused_client_keeps_every_part_of_its_memory():
    setting = Setting(momentum=0.9, keep_optimizer_state=True, per_round=5, rounds=1)
    before, *_ = run_with_failures(setting, set(), "fedtrip")
    after, *_ = run_with_failures(setting.but(rounds=2), {(2, 3)}, "fedtrip")
    first, second = before.memories.get(3), after.memories.get(3)
    assert second.last_round == first.last_round == 1
    assert torch.equal(second["w_hist"], first["w_hist"])
    assert torch.equal(second.optimizer["1.momentum"], first.optimizer["1.momentum"])
    assert after.memories.get(2).last_round == 2
    assert not torch.equal(after.memories.get(2)["w_hist"], before.memories.get(2)["w_hist"])


def test_a_newcomer_that_is_refused_stays_new():
    state, *_ = run_with_failures(Setting(rounds=1, per_round=5), {(1, 2)}, "feddyn")
    assert state.memories.get(2).is_new
    assert state.memories.get(2).vectors == {}


def test_a_client_whose_data_overflow_is_refused_in_a_run():
    pairs = samples()
    pairs[3] = (torch.full_like(pairs[3][0], 3e38), pairs[3][1])
    spoilt = Setting(module=made(relu), pairs=pairs)
    result = spoilt.run("fedtrip", mu=0.4)
    assert result.ended is None
    taking_part = [t for t in range(1, 7) if 3 in spoilt.chosen(t)]
    assert {(r.round, k) for r in result.records for k in r.refused} == {(t, 3) for t in taking_part}
    assert result.summary()["refused_uploads"] == len(taking_part) > 1
    module, _ = run_naive(spoilt.but(pairs=samples()), "fedtrip", failures={(t, 3) for t in taking_part}, mu=0.4)
    assert apart(result.state, module) < CLOSE


@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_diverges_at_once_ends_with_the_initial_model(name):
    setting = Setting(module=made(relu), pairs=samples([7, 10, 9, 12, 6]), lr=1e30)
    initial = copy.deepcopy(setting.module.state_dict())
    result = setting.run(name)
    assert result.ended is not None
    assert result.ended.startswith("round 1: none of the 2 uploads could be used ('w' is not finite)")
    (last,) = result.records
    assert last.accuracy is None
    assert sorted(last.refused) == list(last.clients)
    assert all(torch.equal(result.state[key], initial[key]) for key in initial)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_diverges_later_ends_with_the_last_good_model(name):
    setting = Setting(module=made(relu), lr=1e5, rounds=30)
    result = setting.run(name)
    good = len(result.records) - 1  # the last record is of the round that ended the run
    assert good > 0
    assert result.ended is not None
    assert f"round {good + 1}:" in result.ended
    assert setting.but(rounds=good).run(name).model_sha256 == result.model_sha256
    assert all(bool(torch.isfinite(value).all()) for value in result.state.values())


def test_a_round_without_uploads_changes_nothing():
    setting = Setting(rounds=2)
    good, *_ = run_with_failures(setting, set(), "feddyn")
    federation = setting.but(rounds=6).federation("feddyn")
    state = initial_state(federation, ClientStore())
    engine = FailingEngine(federation, {(3, k) for k in range(5)})
    seen = []
    with torch.random.fork_rng(devices=[]), pytest.raises(RunEnded) as ended:  # noqa: PT012
        for record, _ in rounds(federation, engine, state):
            seen.append(record.round)
    assert seen == [1, 2]
    assert ended.value.record.round == 3
    assert sorted(ended.value.record.refused) == list(setting.chosen(3))
    assert state.round == 2
    assert torch.equal(state.server.w, good.server.w)
    assert torch.equal(state.server.state["h"], good.server.state["h"])
    for k in range(5):
        assert state.memories.get(k).last_round == good.memories.get(k).last_round


def test_the_last_good_model_is_finite_also_where_the_servers_own_step_overflows():
    setting = Setting(rounds=3)
    result = setting.run("slowmo", alpha=1e300)
    assert result.ended is not None
    assert all(bool(torch.isfinite(value).all()) for value in result.state.values())
