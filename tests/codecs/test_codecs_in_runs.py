"""Codecs in whole rounds: bytes and operations counted, residuals kept or thrown away, the same bits everywhere."""

from dataclasses import replace

import pytest
import torch
from tests.reference.coding import FED_BACK, RULES, made
from tests.reference.setting import Net, Setting, samples
from tests.reference.setting import made as module_made
from torch import nn

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.one_thread import one_thread
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state

SIZES = (12, 18, 12, 24, 6)
MODULE = module_made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh()))
W = sum(p.numel() for p in MODULE.parameters())
BUFFERS = 4 * 2 * 5 + 8
PER_ROUND = 3


def described(**rules):
    return fedtrip.Experiment(rounds=3, per_round=PER_ROUND, batch_size=6, lr=0.05, momentum=0.0, **rules)


def data():
    pairs = samples(SIZES)
    return fedtrip.from_clients(pairs, pairs[0], mean=0.0, std=1.0)


def run(experiment, **options):
    return fedtrip.run(experiment, model=MODULE, data=data(), **{"workers": 1, **options})


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_bytes_operations_and_memory_are_counted(rule):
    """SCAFFOLD sends two vectors of W numbers, and BatchNorm's buffers as they are; it keeps one vector."""
    codec = made(rule)
    coded, plain = (run(described(method="scaffold", upload_codec=one)) for one in (rule, "none"))
    feedback = 2 + codec.decoding if codec.keeps_error else 0
    each = (1 + codec.coding + feedback) + (1 + codec.decoding)
    for one, other in zip(coded.records, plain.records, strict=True):
        assert not one.refused
        assert one.bytes_up == PER_ROUND * (2 * codec.length(W) + BUFFERS)
        assert other.bytes_up == PER_ROUND * (2 * 4 * W + BUFFERS)
        assert one.bytes_down == other.bytes_down
        assert one.macs - other.macs == PER_ROUND * each * 2 * W
        assert one.client_memory - other.client_memory == (2 * 4 * W if codec.keeps_error else 0)
    assert coded.model_sha256 != plain.model_sha256


@pytest.mark.parametrize("rule", ["topk:1", "randk:1", {"name": "randk:1", "feedback": True}], ids=str)
def test_all_numbers_are_the_uncoded_run_to_rounding(rule):
    """Each client's Δ arrives to the bit; w + Δ differs from w_k by a rounding."""
    whole = Setting(rounds=3)
    plain, coded = (
        fedtrip.run(whole.experiment("fedtrip").but(upload_codec=one), model=whole.module, data=whole.data, workers=1)
        for one in ("none", rule)
    )
    for name, value in plain.state.items():
        assert torch.allclose(coded.state[name], value, rtol=1e-5, atol=1e-6)


RESUMED = [
    {"method": "scaffold", "upload_codec": "sign"},
    {"method": "fedtrip", "upload_codec": {"name": "eden:1", "feedback": True}},
    {"method": "scaffold", "upload_codec": {"name": "randk:0.2", "feedback": True}},
    {"method": "fedavg", "upload_codec": "qsgd:7:16"},
    {"method": "fedavg", "upload_codec": "int:3:16"},
]


@pytest.mark.parametrize("rules", RESUMED, ids=str)
def test_the_same_bits_after_a_resumption(rules, tmp_path):
    class Killed(Exception):
        pass

    def kill(record):
        if record.round == 2:
            raise Killed

    whole = run(described(**rules))
    with pytest.raises(Killed):
        run(described(**rules), out=tmp_path / "run", on_round=kill)
    resumed = run(described(**rules), out=tmp_path / "run", resume=True)
    assert resumed.model_sha256 == whole.model_sha256
    assert resumed.records[-1].bytes_up == whole.records[-1].bytes_up


def test_the_same_bits_on_two_workers():
    for rules in RESUMED[:2]:
        assert run(described(**rules), workers=2).model_sha256 == run(described(**rules)).model_sha256


class Faulty:
    """An engine whose client 1 sends in round 2 something that is no payload, or loses its answer."""

    def __init__(self, federation, fault):
        self._engine, self._fault = SerialEngine(federation), fault

    def work(self, jobs):
        for job, outcome in zip(jobs, self._engine.work(jobs), strict=True):
            yield self._fault(outcome) if (job.client, job.round) == (1, 2) else outcome

    def score(self, questions):
        return self._engine.score(questions)


def shortened(outcome):
    return replace(outcome, upload={name: v[:-1] for name, v in outcome.upload.items()})


def lost(outcome):
    return replace(outcome, upload={}, problem="it cannot be reached")


def residuals_of(experiment, fault):
    """Client 1's residuals after each round, of a run in which all take part, and what was refused."""
    federation = prepare(experiment.but(per_round=len(SIZES)), data=as_dataset(data(), experiment), model=MODULE)
    state = initial_state(federation, ClientStore())
    kept, refused = [], []
    with one_thread():
        for record, _ in rounds(federation, Faulty(federation, fault), state):
            refused.append(dict(record.refused))
            kept.append({name: v.clone() for name, v in state.memories.get(1).codec.items()})
    return kept, refused


@pytest.mark.parametrize("rule", [rule for rule in FED_BACK if rule != "topk:1"], ids=str)
@pytest.mark.parametrize("fault", [shortened, lost])
def test_a_refused_or_lost_upload_keeps_the_older_residual(rule, fault):
    experiment = described(method="scaffold", upload_codec=rule)
    (first, second, third), refused = residuals_of(experiment, fault)
    (sound_first, sound_second, _), none = residuals_of(experiment, lambda outcome: outcome)
    assert [list(one) for one in refused] == [[], [1], []]
    assert none == [{}, {}, {}]
    assert set(first) == {"w", "delta_c"}
    assert not torch.equal(first["w"], first["delta_c"])
    for name in first:
        assert torch.equal(first[name], sound_first[name])
        assert torch.equal(second[name], first[name])
        assert not torch.equal(sound_second[name], first[name])
        assert not torch.equal(third[name], second[name])


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_client_whose_model_is_not_finite_is_refused_and_the_others_go_on(rule):
    def spoilt(outcome):
        return outcome

    class Diverges(Faulty):
        def work(self, jobs):
            poisoned = [
                replace(job, received={**job.received, "w": torch.full_like(job.received["w"], torch.nan)})
                if (job.client, job.round) == (1, 2)
                else job
                for job in jobs
            ]
            return self._engine.work(poisoned)

    experiment = described(method="fedavg", upload_codec=rule)
    federation = prepare(experiment.but(per_round=len(SIZES)), data=as_dataset(data(), experiment), model=MODULE)
    state = initial_state(federation, ClientStore())
    with one_thread():
        records = [record for record, _ in rounds(federation, Diverges(federation, spoilt), state)]
    assert [list(record.refused) for record in records] == [[], [1], []]
    assert "'w'" in records[1].refused[1]
    assert bool(torch.isfinite(state.server.model["w"]).all())
