"""A run that is left after a round and goes on later: each round is run once, and the end is that of a whole run."""

import json

import pytest

import fedtrip
from fedtrip import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.rounds.state import RunPaused
from fedtrip.runs.folder import Destination, read_records
from fedtrip.runs.running import run_federation

SMALL = {"rounds": 6, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10}


def left(federation, out, until, seen):
    with pytest.raises(RunPaused):
        run_federation(
            federation, destination=Destination(out, resume=True), workers=1, until=until, on_round=seen.append
        )


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedtrip", "feddyn"])
def test_a_run_in_three_parts_has_the_bits_of_a_whole_one(method, blobs, tmp_path):
    federation = prepare(
        Experiment(**SMALL, method=method, lr_schedule="cosine", validation=0.2), data=fedtrip.from_arrays(**blobs)
    )
    whole = run_federation(federation, destination=Destination(tmp_path / "whole"), workers=1)
    seen = []
    for until in (2, 2, 5):  # the second is there already
        left(federation, tmp_path / "parts", until, seen)
        assert not (tmp_path / "parts/summary.json").exists()
        assert len(read_records(tmp_path / "parts")) == until
    again = run_federation(
        federation, destination=Destination(tmp_path / "parts", resume=True), workers=1, on_round=seen.append
    )
    assert [record.round for record in seen] == [1, 2, 3, 4, 5, 6]
    assert again.model_sha256 == whole.model_sha256
    lines = [
        [{**json.loads(line), "seconds": None} for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "parts")
    ]
    assert lines[0] == lines[1]


def test_the_last_round_is_the_end_and_an_earlier_one_is_not_gone_back_to(blobs, tmp_path):
    federation = prepare(Experiment(**SMALL), data=fedtrip.from_arrays(**blobs))
    left(federation, tmp_path / "run", 4, [])
    seen = []
    left(federation, tmp_path / "run", 3, seen)
    assert seen == []
    assert len(read_records(tmp_path / "run")) == 4
    for until in (6, 9):
        result = run_federation(
            federation, destination=Destination(tmp_path / "run", resume=True), workers=1, until=until
        )
        assert len(result.records) == 6
    assert (tmp_path / "run/summary.json").is_file()


def test_a_run_that_is_over_is_not_left(blobs, tmp_path):
    """It reached its target, or lost its patience, in the very round after which it is to be left."""
    data = fedtrip.from_arrays(**blobs)
    at_once = prepare(Experiment(**SMALL, target=0.01, stop_at_target=True), data=data)
    ended = run_federation(at_once, destination=Destination(tmp_path / "target"), workers=1, until=1)
    assert len(ended.records) == 1
    hopeless = prepare(Experiment(**SMALL, lr=1e-9, validation=0.2, patience=1), data=data)
    stopped = run_federation(hopeless, destination=Destination(tmp_path / "patience"), workers=1, until=2)
    assert len(stopped.records) == 2
    assert stopped.stopped is not None
