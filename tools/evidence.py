"""Measure docs/evidence/ again: `python -m tools.evidence [SETTING ...] [tuned]`, then write the pages that quote it.

Every method on digits with its defaults, ten paired trials in each of four federations; methods with models of the
clients' own are judged by these too. `tuned`: every method with a global model after `fedtrip tune`. Killed, the same
command goes on. `--pages` only writes the pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fedtrip
from fedtrip.comparison.tables import as_records
from fedtrip.comparison.trials import Trial, run_trials
from fedtrip.comparison.variants import Row, make_variants, read_results, run_folder, summarise
from fedtrip.experiment.preparer import Preparer
from fedtrip.families import METHOD
from fedtrip.figures.curves import common_rounds
from fedtrip.files.atomic import write_text
from fedtrip.methods.interface import Method
from fedtrip.runs.history import History
from fedtrip.runs.result import Result

ROOT = Path(__file__).parent.parent
STORED, RUNS = ROOT / "docs" / "evidence", ROOT / "runs" / "evidence"
TRIALS = 10
SETTINGS: dict[str, dict[str, Any]] = {
    "dirichlet-0.5": {"partition": "dirichlet:0.5"},
    "dirichlet-0.1": {"partition": "dirichlet:0.1"},
    "quantity": {"partition": "quantity:0.5"},
    "few-of-many": {"partition": "dirichlet:0.5", "clients": 50, "per_round": 4},
}
TUNED = "tuned"
BUDGET, TUNED_SETTING = 960, {"partition": "dirichlet:0.1", "target": 0.95}
"""Rounds for each method to find its values; a target that tuned methods do not reach in the first few rounds."""
OF_CLIENTS: dict[str, Any] = {"client_test": 0.2, "eval_clients": 100}


def is_personal(name: str) -> bool:
    """Whether clients of the method have models of their own."""
    cls = METHOD.find(name)
    return any(getattr(cls, own) is not getattr(Method, own) for own in ("stays", "personal_model", "personalise"))


def measure(setting: str) -> None:
    """Run what is missing of a setting, and store its tables and curves."""
    names = METHOD.names()
    personal = [name for name in names if is_personal(name)]
    parts = {
        "global": ([name for name in names if name not in personal], {}),
        "personal": (["fedavg", *personal], OF_CLIENTS),
    }
    for part, (methods, more) in parts.items():
        rows, results = compared(methods, fedtrip.Experiment(**SETTINGS[setting], **more), RUNS / setting / part)
        where = STORED / setting
        _write(where / f"{part}.json", as_records(rows))
        if part == "global":
            _write(where / "curves.json", {name: curve(runs) for name, runs in results.items()})
        print(f"{setting}, {part}: {len(methods)} methods", flush=True)


def measure_tuned() -> None:
    """Tune all methods with a global model, and store what came out."""
    names = [name for name in METHOD.names() if not is_personal(name)]
    out = RUNS.parent / TUNED
    fedtrip.tune(fedtrip.Experiment(**TUNED_SETTING), methods=names, budget=BUDGET, trials=TRIALS, out=out, resume=True)
    store_tuned(out)


def store_tuned(out: Path) -> None:
    """The verdict and what was chosen, and the page with all that was tried."""
    found = json.loads((out / "tuning.json").read_text(encoding="utf-8"))
    parts = ("budget", "spent", "rungs", "objective", "target", "validation", "seeds", "fresh_seeds", "ranges")
    _write(STORED / TUNED / "tuned.json", {part: found[part] for part in (*parts, "chosen", "verdict")})
    write_text(STORED / TUNED / "tuning.md", (out / "tuning.md").read_text(encoding="utf-8"))


def compared(methods: list[str], base: fedtrip.Experiment, out: Path) -> tuple[list[Row], dict[str, list[Result]]]:
    """As `fedtrip.compare`, but in a folder to which a method may come later: only its runs are missing then."""
    variants, prepared, seeds = (
        make_variants(base, methods, {}),
        Preparer(None, None, None, progress=False),
        range(TRIALS),
    )
    trials = [
        Trial(
            f"{variant.label}, seed {seed}",
            partial(prepared, variant.experiment.but(seed=seed)),
            run_folder(out, variant, seed),
            variant.experiment.rounds,
        )
        for variant in variants
        for seed in seeds
    ]
    for _ in run_trials(trials, workers=None, on_round=None):
        pass
    results = read_results(out, variants, seeds)
    completed = [replace(variant, experiment=prepared(variant.experiment).experiment) for variant in variants]
    return summarise(completed, results), results


def curve(runs: Sequence[History]) -> dict[str, list[float]]:
    """Mean, lowest and highest test score of the trials after each round."""
    rounds, scores = common_rounds(runs)
    rows = {"mean": scores.mean(0), "low": scores.min(0), "high": scores.max(0)}
    return {
        "round": [int(t) for t in rounds],
        **{name: [round(float(v), 4) for v in row] for name, row in rows.items()},
    }


def _write(path: Path, content: Any) -> None:
    """Compact JSON, one line for each method."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
        write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
    else:
        write_text(path, "[\n" + ",\n".join(map(json.dumps, content)) + "\n]\n")


if __name__ == "__main__":
    from tools import evidence_page

    asked = sys.argv[1:]
    for chosen in () if asked == ["--pages"] else asked or (*SETTINGS, TUNED):
        if chosen not in (*SETTINGS, TUNED):
            sys.exit(f"setting is '{chosen}'; accepted: {', '.join(SETTINGS)}, {TUNED}, or --pages")
        measure_tuned() if chosen == TUNED else measure(chosen)
    evidence_page.write()
