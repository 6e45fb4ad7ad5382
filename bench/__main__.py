"""Measure, and write results.json, scaling.png and README.md: `python -m bench [PART...] [--quick | --render]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.cases import CASES
from bench.intervals import Interval
from bench.machine import cpu_name, settings
from bench.memory import FEDERATIONS, peak_memory
from bench.one_case import measured_apart
from bench.prompt import seconds_of_compare
from bench.report import in_readme, write_report
from bench.scaling import draw_scaling, scaling
from fedtrip.runs.result import versions

HERE = Path(__file__).parent
OTHERS = ("compare", "memory", "scaling")
TURNS, QUICK_TURNS = 30, 1


def main() -> None:
    """Measure everything, or only the parts that are named and keep the rest. Nothing else should run meanwhile."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *CASES, *OTHERS], metavar="PART",
                        help=f"{', '.join((*CASES, *OTHERS))} (default: all)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one turn, into build/bench: only to see that it runs")
    parser.add_argument("--render", action="store_true", help="write the pages again from results.json")
    chosen = parser.parse_args()
    folder = HERE.parent / "build" / "bench" if chosen.quick else HERE
    folder.mkdir(parents=True, exist_ok=True)
    results = kept_results(folder / "results.json", to_render=chosen.render)
    if not chosen.render:
        for part in chosen.parts or (*CASES, *OTHERS):
            measure(part, results, chosen.quick, folder)
    if "scaling" in results:
        draw_scaling(results["scaling"], folder / "scaling.png")
    (folder / "README.md").write_text(write_report(results))
    if not chosen.quick:
        readme = HERE.parent / "README.md"
        readme.write_text(in_readme(readme.read_text(), results))
    say(f"written: {folder / 'README.md'}")


def kept_results(path: Path, *, to_render: bool) -> dict[str, Any]:
    """What was measured before; to go on measuring nothing of another processor."""
    here = {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0))}
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if to_render:
        if "cases" not in kept:
            raise SystemExit(f"{path} holds no measurements of this benchmark; `make bench` makes them.")
        return kept
    return kept if {key: kept.get(key) for key in here} == here else {**here, "cases": {}}


def measure(part: str, results: dict[str, Any], quick: bool, folder: Path) -> None:
    """One part, written at once: the whole takes more than an hour."""
    say(part)
    turns = QUICK_TURNS if quick else TURNS
    if part in CASES:
        for kernels, environment in settings().items():
            say(f"  {kernels}")
            results["cases"].setdefault(part, {})[kernels] = measured_apart(part, turns, environment)
    elif part == "compare":
        seconds = seconds_of_compare(1, rounds=2) if quick else seconds_of_compare(3)
        results["compare"] = asdict(Interval.of(seconds))
    elif part == "memory":
        results["memory"] = {name: peak_memory(name, 0.02 if quick else 1.0) for name in FEDERATIONS}
    else:
        results["scaling"] = scaling(1 if quick else 8)
    results["versions"] = versions()
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def say(what: str) -> None:
    """What is being measured now."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
