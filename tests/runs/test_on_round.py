"""What a run tells its caller after a round, and that the caller can stop it."""

import pytest
import torch

import fedtrip
from fedtrip import Experiment, StopRun

SMALL = Experiment(rounds=5, samples_per_client=60)


def test_it_can_stop_the_run_and_gets_a_result(tmp_path):
    def enough(record):
        if record.round == 2:
            raise StopRun("seen enough")

    stopped = fedtrip.run(SMALL, workers=1, out=tmp_path / "run", on_round=enough)
    assert stopped.stopped == "by its on_round after round 2: seen enough"
    assert (len(stopped.records), stopped.ended) == (2, None)
    assert stopped.model_sha256 == fedtrip.run(SMALL.but(rounds=2), workers=1).model_sha256
    again = fedtrip.load_result(tmp_path / "run")
    assert (again.stopped, again.model_sha256) == (stopped.stopped, stopped.model_sha256)


def test_it_receives_the_model_if_it_asks():
    seen = []

    def look(record, model):
        assert record.round == len(seen) + 1
        module = model.module()
        assert not module.training
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        with torch.no_grad():
            next(module.parameters()).zero_()  # the caller's own

    watched = fedtrip.run(SMALL, workers=1, on_round=look)
    plain = fedtrip.run(SMALL, workers=1)
    assert watched.model_sha256 == plain.model_sha256
    assert len(seen) == 5
    assert all(torch.equal(seen[-1][name], tensor) for name, tensor in plain.state.items())
    assert not torch.equal(seen[0]["1.weight"], seen[1]["1.weight"])


@pytest.mark.parametrize("kind", ["plain", "with a default", "any number"])
def test_who_takes_one_argument_gets_the_record(kind):
    told = []
    functions = {
        "plain": lambda record: told.append(record),
        "with a default": lambda record, to=told: to.append(record),
        "any number": lambda *given: told.extend(given),
    }
    result = fedtrip.run(SMALL, workers=1, on_round=functions[kind])
    assert tuple(told) == result.records
