"""Run the race and write bench/race.json and bench/RACE.md: `python -m bench.race [--rounds R] [--seeds S]`."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import cpu_name
from bench.race.environments import FOLDER, PEERS, Peer, install, problem, version
from bench.race.page import write_page
from bench.race.task import CLIENTS, SAMPLES
from fedtrip import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.native.library import kernels
from fedtrip.runs.result import versions

HERE = Path(__file__).parent
MODELS = ("mlp", "cnn")
LONGEST = 1800
"""Seconds after which a run is given up."""
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def main() -> None:
    """Every simulator in turns, seed by seed. Nothing else should run meanwhile."""
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--into", type=Path, default=HERE.parent, help="folder of race.json and RACE.md")
    chosen = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    task = write_task()
    problems = {peer.title: install(peer) for peer in PEERS}
    runs: dict[str, dict[str, list[Any]]] = {peer.title: {model: [] for model in MODELS} for peer in PEERS}
    for seed in range(chosen.seeds):
        for model in MODELS:
            for peer in PEERS:
                if problems[peer.title] is None:
                    print(f"seed {seed}, {model}: {peer.title}", file=sys.stderr, flush=True)
                    found = one_run(peer, task, model, chosen.rounds, seed)
                    if isinstance(found, str):
                        problems[peer.title] = found
                    else:
                        runs[peer.title][model].append(found)
    results = {
        "cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "kernels": kernels(), "rounds": chosen.rounds,
        "versions": versions() | {p.title: version(p) for p in PEERS if p.requirement and not problems[p.title]},
        "problems": problems, "runs": runs,
    }  # fmt: skip
    (chosen.into / "race.json").write_text(json.dumps(results, indent=1) + "\n")
    (chosen.into / "RACE.md").write_text(write_page(results))


def write_task() -> Path:
    """MNIST split among the clients, normalised, as one file that all of them read."""
    place = os.environ.get("FEDTRIP_DATA")
    if not place:
        raise SystemExit("The race needs MNIST: set FEDTRIP_DATA to a folder that holds it (docs/data.md).")
    experiment = Experiment(
        dataset="mnist", partition="iid", draw="disjoint", clients=CLIENTS, samples_per_client=SAMPLES, method="fedavg"
    )
    federation = prepare(experiment, data_dir=place)
    data, shares = federation.dataset, [federation.partition.share(client) for client in range(CLIENTS)]
    rows = np.concatenate([share.numpy() for share in shares])
    path = FOLDER / "task.npz"
    np.savez(
        path, x=data.normalised(data.x_train[rows]).numpy(), y=data.y_train[rows].numpy(),
        client=np.repeat(np.arange(CLIENTS), [len(share) for share in shares]),
        x_test=data.normalised(data.x_test).numpy(), y_test=data.y_test.numpy(),
    )  # fmt: skip
    return path


def one_run(peer: Peer, task: Path, model: str, rounds: int, seed: int) -> dict[str, Any] | str:
    """Seconds from the start of the process to its end and of a round, the last accuracy; or what went wrong."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [str(peer.python), str(HERE / peer.program), str(task), model, str(rounds), str(seed)]
    environment = {**os.environ, **QUIET, "PYTHONPATH": path, "FLWR_HOME": str(FOLDER / "flwr_home")}
    began = time.perf_counter()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"not finished after {LONGEST} s"
    wall = time.perf_counter() - began
    if done.returncode or not done.stdout.strip():
        return problem(done.stderr, "Error")
    notes = json.loads(done.stdout.splitlines()[-1])
    between = [later - sooner for sooner, later in zip(notes["ended"], notes["ended"][1:], strict=False)]
    return {"wall": wall, "round": statistics.median(between), "accuracy": notes["accuracy"][-1]}


if __name__ == "__main__":
    main()
