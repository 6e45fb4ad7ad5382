"""What a run on a large mapped file takes of memory: not a copy of it, in no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MEGABYTES = 100
ROWS = MEGABYTES * 10**6 // (784 * 4)
RUN = """
import os, sys, threading, time
import fedtrip
import fedtrip.api.runs, fedtrip.engines.pool

def taken():
    # what no file stands for, of this process and its workers; pages of files are the system's to take back
    me, total = os.getpid(), 0
    with open(f"/proc/{me}/task/{me}/children") as children:
        processes = [me, *map(int, children.read().split())]
    shared = 0
    for process in processes:
        try:
            with open(f"/proc/{process}/status") as status:
                fields = dict(line.split(":", 1) for line in status)
        except OSError:
            continue
        total += int(fields["RssAnon"].split()[0])
        shared = max(shared, int(fields["RssShmem"].split()[0]))
    return total + shared

def watch():
    while True:
        peak[0] = max(peak[0], taken())
        time.sleep(0.01)

peak = [0]
before = taken()
threading.Thread(target=watch, daemon=True).start()
experiment = fedtrip.Experiment(
    dataset="npy:data", rounds=2, clients=100, per_round=4, samples_per_client=100, partition="iid"
)
fedtrip.run(experiment, workers=1)
print((peak[0] - before) * 1024)
"""


@pytest.mark.slow
def test_a_run_takes_less_than_half_of_what_the_file_holds(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    x = np.random.default_rng(0).normal(size=(ROWS, 784)).astype(np.float32)
    labels = np.arange(ROWS) % 10
    arrays = {"x_train": x, "y_train": labels, "x_test": x[:500], "y_test": labels[:500]}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=True)
    # measured three times: 11 to 13 MB; a copy would be all of the file
    assert int(done.stdout) < 0.5 * x.nbytes
