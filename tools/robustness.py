"""Measure docs/evidence/robustness/: rules of combining against attacks, where clients' data are alike and where not.

`python -m tools.robustness_page [digits|fmnist ...] [--seconds S]` runs what is missing, at most so long, and writes
the page. Stopped or killed, the same command goes on: every cell (a rule, an attack, a partition; all its seeds) is
stored when it is finished. `--pages` only writes the page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedtrip
from fedtrip.files.atomic import write_text

ROOT = Path(__file__).parent.parent
STORED = ROOT / "docs" / "evidence" / "robustness"
PARTITIONS = {"iid": "iid", "dirichlet-0.5": "dirichlet:0.5", "dirichlet-0.1": "dirichlet:0.1"}
SHARE, CLIENTS = 0.2, 10
"""All clients take part in every round, so that two of ten attack in each of them: f = 2."""
RULES = {
    "mean": "mean", "median": "median", "trimmed": "trimmed:0.2", "geometric": "geometric", "krum": "krum:2",
    "multikrum": "multikrum:2", "clip": "clip:0.25", "centered": "centered:0.25",
}  # fmt: skip
ATTACKS = {
    "none": "none", "signflip": f"signflip:{SHARE}:5", "labelflip": f"labelflip:{SHARE}",
    "gaussian": f"gaussian:{SHARE}:10", "alie": f"alie:{SHARE}", "ipm": f"ipm:{SHARE}", "backdoor": f"backdoor:{SHARE}",
}  # fmt: skip
BASE_RULE, BASE_ATTACK = "mean", "none"
Cell = dict[str, list[float]]
"""`final_accuracy`, and of a backdoor `attack_success`, of each seed"""


@dataclass(frozen=True)
class Setting:
    """What is measured of one data set."""

    title: str
    trials: int
    fields: dict[str, Any]
    rules: tuple[str, ...]
    attacks: tuple[str, ...]
    workers: int | None = 1


SETTINGS = {
    "digits": Setting("digits, MLP", 10, {"rounds": 40}, tuple(RULES), tuple(ATTACKS)),
    "fmnist": Setting(
        "FMNIST, CNN",
        5,
        {"dataset": "fashion-mnist", "model": "cnn", "rounds": 15},
        ("mean", "median", "geometric", "multikrum"),
        ("none", "signflip", "alie", "backdoor"),
        workers=None,
    ),
}


def experiment(dataset: str, partition: str, rule: str, attack: str, seed: int) -> fedtrip.Experiment:
    """One run."""
    return fedtrip.Experiment(
        method="fedavg",
        clients=CLIENTS,
        per_round=CLIENTS,
        partition=PARTITIONS[partition],
        combine=RULES[rule],
        attack=ATTACKS[attack],
        seed=seed,
        **SETTINGS[dataset].fields,
    )


def cells(dataset: str) -> Iterator[tuple[str, str, str]]:
    """Partition, rule and attack of every cell."""
    setting = SETTINGS[dataset]
    return ((p, rule, attack) for p in PARTITIONS for attack in setting.attacks for rule in setting.rules)


def stored(dataset: str, partition: str) -> dict[str, Cell]:
    """The cells that were measured, by `rule, attack`; of one that is not finished nothing."""
    path = _path(dataset, partition)
    found: dict[str, Cell] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def is_complete(dataset: str) -> bool:
    """Whether every cell of a data set is there."""
    return all(key(rule, attack) in stored(dataset, p) for p, rule, attack in cells(dataset))


def key(rule: str, attack: str) -> str:
    """The name of a cell."""
    return f"{rule}, {attack}"


def measure(dataset: str, until: float) -> None:
    """Run what is missing, until that moment of the monotonic clock."""
    for partition, rule, attack in cells(dataset):
        found = stored(dataset, partition)
        if key(rule, attack) in found or time.monotonic() > until:
            continue
        began = time.monotonic()
        found[key(rule, attack)] = _measured(dataset, partition, rule, attack)
        _write(_path(dataset, partition), found)
        took = time.monotonic() - began
        print(f"{dataset}, {partition}, {rule} against {attack}: {took:.1f} s", flush=True)


def _measured(dataset: str, partition: str, rule: str, attack: str) -> Cell:
    setting = SETTINGS[dataset]
    results = [
        fedtrip.run(experiment(dataset, partition, rule, attack, seed), workers=setting.workers)
        for seed in range(setting.trials)
    ]
    # a run that ended because nothing finite was left has learned nothing
    cell = {"final_accuracy": [round(0.0 if r.ended else r.final_accuracy or 0.0, 5) for r in results]}
    success = [r.attack_success for r in results if r.attack_success is not None]
    return {**cell, "attack_success": [round(value, 5) for value in success]} if success else cell


def _path(dataset: str, partition: str) -> Path:
    return STORED / f"{dataset}-{partition}.json"


def _write(path: Path, content: dict[str, Cell]) -> None:
    """One line for each cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(cell)}" for name, cell in content.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
