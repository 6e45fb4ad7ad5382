"""Clients that never answer or send nonsense, simulated: seeded, recorded, the same everywhere, and without effect on
what the clients remember."""

import json
import math
from dataclasses import replace

import pytest
import torch
from test_refused_uploads import METHODS
from tests.reference.naive import CLOSE, apart, run_naive
from tests.reference.setting import Setting
from tests.reference.watching import FailingEngine, advance

import fedtrip as package
from fedtrip.attacks.corrupt import KINDS, Corrupt
from fedtrip.attacks.dropout import Dropout
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.rounds.check import reason_to_refuse
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import RunEnded, initial_state

SMALL = {"clients": 6, "per_round": 4, "samples_per_client": 20, "batch_size": 10, "rounds": 5, "seed": 2}
FAULTY = {"attack": {"name": "corrupt:0.3", "dropout": 0.3}}


def test_faults_are_a_function_of_seed_round_and_client_alone():
    chosen = range(1000)
    attack = Corrupt(0.25, dropout=0.2)
    both = attack.faults(1, 4, chosen)
    assert both == attack.faults(1, 4, chosen)
    assert both != attack.faults(2, 4, chosen)
    assert both != attack.faults(1, 5, chosen)
    assert 150 < len(both.dropped) < 250
    assert 150 < len(both.spoiled) < 250
    kinds = [KINDS[int(corruption.numbers.kind * 3)] for corruption in both.spoiled.values()]
    assert all(50 < kinds.count(kind) < 85 for kind in KINDS)
    alone = attack.faults(1, 4, [both.dropped[0]])
    assert alone.dropped == both.dropped[:1]
    assert set(both.dropped) < set(Corrupt(0.25, dropout=0.4).faults(1, 4, chosen).dropped)  # a larger P only adds
    assert Dropout(0.2).faults(1, 4, chosen).dropped == both.dropped  # the same clients, whatever else happens
    none = Corrupt(0.0).faults(1, 4, chosen)
    assert (none.dropped, none.spoiled) == ((), {})


def test_every_kind_of_corruption_is_refused_and_the_upload_itself_untouched():
    model = {"w": torch.ones(5), "buffers": torch.ones(2), "counters": torch.ones(1, dtype=torch.int64)}
    faults = Corrupt(1.0).faults(0, 1, range(200)).spoiled
    reasons = {reason_to_refuse(spoil(model), model) for spoil in faults.values()}
    assert reasons == {
        "'w' is not finite", "'buffers' is not finite", "'w' has the shape (4,) instead of (5,)",
        "'buffers' has the shape (1,) instead of (2,)",
    }  # fmt: skip
    assert all(bool((vector == 1).all()) for vector in model.values())


@pytest.mark.parametrize(
    "name", sorted(METHODS.keys() - {"feddane"})
)  # whose reference fails in the second exchange only
def test_a_run_with_faults_is_one_without_those_clients(name):
    setting = Setting(momentum=0.9, keep_optimizer_state=True, per_round=4, rounds=6, seed=5)
    experiment = setting.experiment(name, **METHODS[name]).but(attack={"name": "corrupt:0.3", "dropout": 0.25})
    result = package.run(experiment, model=setting.module, data=setting.data, workers=1)
    dropped = {(r.round, k) for r in result.records for k in r.dropped}
    refused = {(r.round, k) for r in result.records for k in r.refused}
    assert dropped
    assert refused
    assert not dropped & refused
    assert not any(r.unchanged for r in result.records)
    assert (result.summary()["dropped_clients"], result.summary()["refused_uploads"]) == (len(dropped), len(refused))
    module, _ = run_naive(setting, name, failures=dropped | refused, **METHODS[name])
    assert apart(result.state, module) < CLOSE


def test_a_client_that_drops_out_keeps_its_memory():
    setting = Setting(rounds=6, per_round=5, momentum=0.9, keep_optimizer_state=True)
    faulty = setting.experiment("fedtrip").but(attack="dropout:0.5")
    federation = prepare(faulty, model=setting.module, data=setting.data)
    state = initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        for _ in range(6):
            before = {k: state.memories.get(k) for k in range(5)}
            record = advance(federation, SerialEngine(federation), state)
            for k in range(5):
                assert (state.memories.get(k) is before[k]) == (k in record.dropped) or before[k].is_new
                assert (state.memories.get(k).last_round == record.round) == (k not in record.dropped)


def test_a_round_in_which_nobody_answers_leaves_everything_as_it_was_and_the_run_goes_on(tmp_path):
    for attack in ("dropout:1", "corrupt:1", {"name": "corrupt:1", "dropout": 0.5}):
        experiment = package.Experiment(**SMALL, attack=attack, method="feddyn")
        result = package.run(experiment, workers=1, out=tmp_path / "run", overwrite=True)
        assert result.ended is None
        assert len(result.records) == 5
        assert all(r.unchanged and set(r.dropped) | set(r.refused) == set(r.clients) for r in result.records)
        assert len({r.accuracy for r in result.records}) == 1
        lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
        assert all(line["unchanged"] for line in lines)
        assert package.load_result(tmp_path / "run").records == result.records
        untrained = prepare(experiment).module.state_dict()
        assert all(torch.equal(value, untrained[name]) for name, value in result.state.items())


def test_honest_uploads_that_are_all_unusable_still_end_the_run():
    setting = Setting(rounds=6, per_round=4)
    federation = prepare(
        setting.experiment("fedavg").but(attack="dropout:0.3"), model=setting.module, data=setting.data
    )
    engine = FailingEngine(federation, {(t, k) for t in range(3, 7) for k in range(5)})
    with torch.random.fork_rng(devices=[]), pytest.raises(RunEnded, match="uploads could be used"):
        list(rounds(federation, engine, initial_state(federation, ClientStore())))


@pytest.mark.parametrize("method", ["fedtrip", "feddane", "scaffold"])
def test_the_same_bits_with_workers_after_an_interruption_and_recorded_alike(method, tmp_path):
    experiment = package.Experiment(**SMALL, **FAULTY, method=method)
    one = package.run(experiment, workers=1)
    two = package.run(experiment, workers=2)
    assert one.model_sha256 == two.model_sha256

    class Stopped(Exception):
        pass

    def stop(record):
        if record.round == 3:
            raise Stopped

    with pytest.raises(Stopped):
        package.run(experiment, workers=1, out=tmp_path / "run", on_round=stop)
    again = package.run(experiment, workers=1, out=tmp_path / "run", resume=True)
    assert again.model_sha256 == one.model_sha256
    told = [
        [(r.dropped, r.refused, r.bytes_up, r.bytes_down, r.macs) for r in run.records] for run in (one, two, again)
    ]
    assert told[0] == told[1] == told[2]
    assert any(r.dropped for r in one.records)
    assert any(r.refused for r in one.records)


def test_traffic_of_a_client_that_never_answers_goes_down_only():
    quiet = package.run(package.Experiment(**SMALL, method="fedavg", attack="dropout:1"), workers=1).records[0]
    plain = package.run(package.Experiment(**SMALL, method="fedavg"), workers=1).records[0]
    assert (quiet.bytes_down, quiet.bytes_up, quiet.macs) == (plain.bytes_down, 0, 0)


def test_without_faults_the_bits_are_those_of_an_experiment_that_does_not_know_the_fields(tmp_path):
    result = package.run(package.Experiment(**SMALL), workers=1, out=tmp_path / "run")
    text = (tmp_path / "run/experiment.toml").read_text()
    old = "".join(line for line in text.splitlines(True) if not line.startswith("attack"))
    assert old != text
    (tmp_path / "run/experiment.toml").write_text(old)
    metrics = tmp_path / "run/metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps({k: v for k, v in line.items() if k not in ("dropped", "unchanged")}) + "\n" for line in lines))  # fmt: skip  # noqa: E501
    summary = json.loads((tmp_path / "run/summary.json").read_text())  # that version had no digests of files either
    del summary["files_sha256"], summary["summary_sha256"]
    (tmp_path / "run/summary.json").write_text(json.dumps(summary))
    stored = package.load_result(tmp_path / "run")
    assert stored.records == result.records
    assert package.run(stored.experiment, workers=1).model_sha256 == result.model_sha256
    again = package.run(package.Experiment(**SMALL), workers=1, out=tmp_path / "run", resume=True)
    assert again.model_sha256 == result.model_sha256


# ---- what is not simulated: uploads of any kind


@pytest.mark.parametrize("name", METHOD.names())
@pytest.mark.parametrize("damage", ["missing", "short", "two dimensions", "extra", "integers", "nan", "empty", "none"])
def test_an_upload_that_is_not_what_the_method_expects_is_refused(name, damage):
    """Each damage, by another machine, to each vector of each method; the run goes on without that client."""
    if name == "local" and damage in ("short", "nan", "empty"):
        pytest.skip("nothing travels: its vectors have no numbers to spoil")
    setting = Setting(rounds=2, per_round=5)
    federation = setting.federation(name)

    class Engine(SerialEngine):
        def work(self, jobs):
            outcomes = list(super().work(jobs))
            spoilt = dict(outcomes[1].upload)
            vector = sorted(spoilt)[0]
            if damage == "missing":
                del spoilt[vector]
            elif damage == "none":
                spoilt = {}
            elif damage == "extra":
                spoilt["more"] = torch.ones(3)
            else:
                like = spoilt[vector]
                spoilt[vector] = {
                    "short": like[:-1], "two dimensions": like[None], "integers": like.to(torch.int64),
                    "nan": like * math.nan, "empty": like[:0],
                }[damage]  # fmt: skip
            outcomes[1] = replace(outcomes[1], upload=spoilt, remote=True)
            return iter(outcomes)

    state = initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        records = [record for record, _ in rounds(federation, Engine(federation), state)]
    assert [next(iter(record.refused)) for record in records] == [1, 1]
    assert all(len(reason) < 90 for record in records for reason in record.refused.values())
    assert state.memories.get(1).is_new


# ---- the command line


def test_run_and_compare_take_the_options_and_tell(fedtrip, here):
    small = ("--rounds", 4, "--clients", 6, "--samples-per-client", 20, "--workers", 1)
    ended = fedtrip(
        "run", *small, "--attack", "corrupt:0.5", "--set", "attack.dropout=0.4", "--seed", 2, "--out", "run"
    )
    assert ended.code == 0
    assert "never answered" in ended.err
    assert "left out of the average: " in ended.err
    stored = package.load_result(here / "run")
    assert str(stored.experiment.attack) == "corrupt:0.5 dropout=0.4"
    ended = fedtrip(
        "compare", *small, "--methods", "fedtrip,fedavg", "--trials", 1, "--attack", "dropout:0.4", "-q", "--out", "c"
    )
    assert ended.code == 0
    faults = [
        [r.dropped for r in package.load_result(here / f"c/runs/{name}/0").records] for name in ("fedtrip", "fedavg")
    ]
    assert faults[0] == faults[1]
    assert any(faults[0])
    ended = fedtrip(
        "compare", *small, "--methods", "fedavg", "--trials", 1, "--set", "attack=none,dropout:0.5", "-q", "--out", "d"
    )
    assert ended.code == 0
    assert fedtrip("run", "--attack", "dropout:1.5").code == 2
    assert "option 'p' is -0.5; accepted: greater than or equal to 0" in fedtrip("run", "--attack", "corrupt:-0.5").err
