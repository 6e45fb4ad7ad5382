"""Whether a change keeps the bits: `python -m tools.bits [BASE]`.

Runs every method on three nets (an MLP, one with BatchNorm, one with dropout), with one and with two workers, in a
checkout of BASE (default: the last commit) and in this working tree, and compares the SHA-256 of the final models and
of the records' accuracies. Both run on this machine: other vector instructions give other bits, so hashes of another
CPU would prove nothing. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent

CHILD = """
import hashlib, json, sys
import torch
from torch import nn
import fedtrip
from fedtrip.engines.pool import PoolEngine

METHODS = {
    "fedtrip": [
        {"name": "fedtrip", "xi": "inverse-gap", "penalty": "squared", "first": "prox", "reach": 0.0},
        {"name": "fedtrip"},
    ],
    "fedtrip-auto": [{"name": "fedtrip-auto"}, {"name": "fedtrip"}],
    **{name: [{"name": name}] for name in (
        "fedavg", "fedprox", "slowmo", "moon", "feddyn", "scaffold", "mimelite", "feddane", "fedgkd",
    )},
}

def batch_norm():
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(96, 20), nn.ReLU(), nn.Linear(20, 10))

def dropout():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))

NETS = {"mlp": None, "batch-norm": batch_norm, "dropout": dropout}

def ready(*arguments, **options):
    made(self := arguments[0], *arguments[1:], **options)
    self.wait_until_ready()

made = PoolEngine.__init__
PoolEngine.__init__ = ready

def run(spellings, net, workers):
    for method in spellings:
        try:
            experiment = fedtrip.Experiment(
                method=method, rounds=4, clients=6, per_round=3, samples_per_client=120, local_epochs=2, seed=3)
            return fedtrip.run(experiment, model=NETS[net], workers=workers)
        except fedtrip.UserError as problem:
            told = problem
    raise told

for name, spellings in METHODS.items():
    for net in NETS:
        for workers in (1, 2):
            result = run(spellings, net, workers)
            course = hashlib.sha256(repr([record.accuracy for record in result.records]).encode()).hexdigest()
            print(json.dumps([f"{name}, {net}, {workers} workers", result.model_sha256 + " " + course]), flush=True)
"""


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """A commit's tree in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), base], cwd=HERE, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=HERE, check=True)


def hashes(*trees: Path) -> list[dict[str, str]]:
    """Case → digests, computed by the sources of each tree, all at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD],
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
            cwd=tree,
            stdout=subprocess.PIPE,
        )
        for tree in trees
    ]
    found = []
    for process in running:
        told, _ = process.communicate()
        if process.returncode:
            sys.exit(process.returncode)
        found.append(dict(json.loads(line) for line in told.splitlines()))
    return found


def main() -> None:
    """Compare, and say what differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.bits", description=__doc__)
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit to compare with (default: the last one)")
    base = parser.parse_args().base
    with checkout(base) as tree:
        before, after = hashes(tree, HERE)
    other = [case for case in before if before[case] != after.get(case)]
    for case in other:
        print(f"differs: {case}: {before[case][:16]} before, {after.get(case, 'missing')[:16]} now")
    print(f"{len(before) - len(other)} of {len(before)} cases have the same bits as {base}")
    sys.exit(1 if other or not before else 0)


if __name__ == "__main__":
    main()
