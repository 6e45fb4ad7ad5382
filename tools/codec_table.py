"""Measure docs/evidence/codecs/ again: `python -m tools.codec_table [SEEDS ...]`, then write docs/codecs.md's tables.

Every codec with FedAvg, FedTrip and SCAFFOLD on Fashion-MNIST with the CNN (FEDTRIP_DATA names the folder of the data),
ten seeds, each run until its target. The seeds come in pieces, 0-2 of everything first, and after each piece what is
there is stored. Killed, the same command goes on. `SEEDS`, such as 0-2, only these; `--page` only writes the page.
`--quick` tries it out on digits, one seed, into build/.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fedtrip
from fedtrip.comparison.trials import Trial, run_trials
from fedtrip.comparison.variants import Variant, run_folder
from fedtrip.experiment.preparer import Preparer
from fedtrip.files.atomic import write_text
from fedtrip.runs.folder import SUMMARY
from fedtrip.runs.stored import load_result

ROOT = Path(__file__).parent.parent
STORED, RUNS = ROOT / "docs" / "evidence" / "codecs" / "runs.json", ROOT / "runs" / "codecs"
PIECES = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))
SETTING: dict[str, Any] = {
    "dataset": "fashion-mnist", "model": "cnn", "partition": "dirichlet:0.5", "rounds": 100, "target": 0.75,
    "stop_at_target": True,
}  # fmt: skip
"""The paper's: 4 of 10 clients, one epoch, batches of 50, η = 0.01 and momentum 0.9; its target for this case."""
QUICK = {**SETTING, "dataset": "digits", "model": "mlp", "target": 0.9, "rounds": 30}
METHODS: dict[str, dict[str, Any]] = {"fedtrip": {}, "fedavg": {}, "scaffold": {"lr": 0.05}}
"""With what differs from the setting: SCAFFOLD trains with plain SGD, whose steps would be a tenth at η = 0.01. Of
0.03, 0.05 and 0.1, tried without a codec on seed 0, 0.05 took the fewest rounds to the target; with 0.1 it diverged."""
CODECS: dict[str, Any] = {
    "none": "none",
    "int8": "int8",
    "int4": "int4",
    "int:4:256": "int:4:256",
    "int:2:256": "int:2:256",
    "qsgd:7:512": "qsgd:7:512",
    "qsgd:1:512": "qsgd:1:512",
    "eden:1": "eden:1",
    "eden:2": "eden:2",
    "eden:4": "eden:4",
    "eden:1, feedback": {"name": "eden:1", "feedback": True},
    "sign": "sign",
    "topk:0.1": "topk:0.1",
    "topk:0.01": "topk:0.01",
    "topk:0.01, no feedback": {"name": "topk:0.01", "feedback": False},
    "randk:0.1": "randk:0.1",
    "randk:0.1, feedback": {"name": "randk:0.1", "feedback": True},
}


@dataclass(frozen=True)
class Run:
    """What a run took to its target, or in all if it never got there."""

    method: str
    codec: str
    seed: int
    reached: bool
    rounds: int
    """to the target; of one that never got there the planned ones"""
    bytes_up: int
    bytes_down: int
    gmacs: float
    kept: int
    """bytes that a client kept, at most"""
    score: float
    """of the last round; 0 of a run that ended before it was scored"""
    seconds: float
    """of all rounds, on whatever else ran there"""


def variants(setting: dict[str, Any]) -> Iterator[tuple[str, str, Variant]]:
    """Method, codec, and the experiment of both."""
    for method, own in METHODS.items():
        for name, codec in CODECS.items():
            experiment = fedtrip.Experiment(**{**setting, **own}, method=method, upload_codec=codec)
            yield method, name, Variant(f"{method} {name}", experiment)


def measure(seeds: Sequence[int], setting: dict[str, Any], out: Path) -> None:
    """Run what is missing of these seeds; the codecs of one method and seed one after the other."""
    prepared = Preparer(None, None, None, progress=False)
    trials = [
        Trial(
            f"{variant.label}, seed {seed}",
            partial(prepared, variant.experiment.but(seed=seed)),
            run_folder(out, variant, seed),
            variant.experiment.rounds,
        )
        for seed in seeds
        for _, _, variant in variants(setting)
        if not (run_folder(out, variant, seed) / SUMMARY).exists()
    ]
    for done, trial in enumerate(run_trials(trials, workers=None, on_round=None) if trials else (), 1):
        print(f"{done}/{len(trials)} {trial.name}", flush=True)


def collected(setting: dict[str, Any], out: Path) -> list[Run]:
    """The runs that are finished, in the order of methods, codecs and seeds."""
    found = []
    for method, codec, variant in variants(setting):
        for seed in (seed for piece in PIECES for seed in piece):
            folder = run_folder(out, variant, seed)
            if (folder / SUMMARY).exists():
                found.append(_run(method, codec, seed, folder, setting["target"]))
    return found


def _run(method: str, codec: str, seed: int, folder: Path, target: float) -> Run:
    result = load_result(folder, trust=True)
    reached = result.rounds_to(target)
    records = result.records[:reached]
    return Run(
        method, codec, seed, reached is not None, reached or result.experiment.rounds,
        sum(r.bytes_up for r in records), sum(r.bytes_down for r in records), sum(r.macs for r in records) / 1e9,
        max(r.client_memory for r in records), dict(result.curve).get(len(records), 0.0),
        round(sum(r.seconds for r in records), 2),
    )  # fmt: skip


def store(runs: Sequence[Run], path: Path) -> None:
    """One line for each run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "[\n" + ",\n".join(json.dumps(asdict(run)) for run in runs) + "\n]\n")


def stored(path: Path = STORED) -> list[Run]:
    """What was measured; nothing if nothing was."""
    return [Run(**run) for run in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def main(asked: Sequence[str]) -> None:
    """Measure, store, and write the page."""
    from tools import codec_page

    if list(asked) == ["--quick"]:
        out = ROOT / "build" / "codecs"
        measure((0,), QUICK, out)
        store(collected(QUICK, out), out / "runs.json")
        print(codec_page.tables(stored(out / "runs.json")))
        return
    pieces = [] if list(asked) == ["--page"] else [_seeds(text) for text in asked] or list(PIECES)
    for piece in pieces:
        measure(piece, SETTING, RUNS)
        store(collected(SETTING, RUNS), STORED)
        codec_page.write()
    codec_page.write()


def _seeds(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        sys.exit(f"seeds are '{text}'; accepted: numbers such as 0-2 or 3, --page, or --quick")
    return tuple(range(int(first), int(last or first) + 1))


if __name__ == "__main__":
    main(sys.argv[1:])
