"""By default there are as many processes as cores that this process may use, not as many as the machine has."""

import json
import os
import subprocess
import sys

import pytest

from fedtrip.engines import worker_count
from fedtrip.errors import UserError

MANY = len(os.sched_getaffinity(0))

PROGRAM = """
import json, os, sys
os.sched_setaffinity(0, json.loads(sys.argv[1]))
from fedtrip import Experiment
from fedtrip.engines import make_engine, worker_count
from fedtrip.experiment.federation import prepare
with make_engine(prepare(Experiment(rounds=1, samples_per_client=20))) as engine:
    print(json.dumps([worker_count(None), worker_count(3), type(engine).__name__]))
"""


@pytest.mark.skipif(MANY < 2, reason="only one core may be used here")
@pytest.mark.parametrize("count", [1, 2])
def test_the_default_follows_the_affinity_mask(count):
    mask = sorted(os.sched_getaffinity(0))[-count:]
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(mask)], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed) == [count, 3, "SerialEngine" if count == 1 else "PoolEngine"]


def test_here_too():
    assert worker_count(None) == MANY
    with pytest.raises(UserError, match="workers is 0; accepted: at least 1"):
        worker_count(0)
