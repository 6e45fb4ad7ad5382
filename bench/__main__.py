"""Measure, and write results.json, README.md and a figure: `python -m bench [PART...] [--quick | --render]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from bench.cases import CASES
from bench.intervals import Interval
from bench.machine import cpu_name, settings
from bench.memory import FEDERATIONS, peak_memory
from bench.one_case import measured_apart
from bench.prompt import seconds_of_compare
from bench.report import Results, in_readme, scaling_figure, write_report
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
    path = folder / "results.json"
    machines = kept_results(path)
    if chosen.render and not machines:
        raise SystemExit(f"{path} holds no measurements of this benchmark; `make bench` makes them.")
    if not chosen.render:
        results = of_this_machine(machines)
        for part in chosen.parts or (*CASES, *OTHERS):
            measure(part, results, chosen.quick)
            path.write_text(json.dumps({"machines": machines}, indent=1) + "\n")  # at once: the whole takes an hour
    for results in machines:
        if "scaling" in results:
            draw_scaling(results["scaling"], folder / scaling_figure(results))
    (folder / "README.md").write_text(write_report(machines))
    if not chosen.quick:
        readme = HERE.parent / "README.md"
        readme.write_text(in_readme(readme.read_text(), machines))
    say(f"written: {folder / 'README.md'}")


def kept_results(path: Path) -> list[Results]:
    """What was measured before, a part for each processor."""
    machines: list[Results] = json.loads(path.read_text()).get("machines", []) if path.exists() else []
    return machines


def of_this_machine(machines: list[Results]) -> Results:
    """The part of this processor, a new one if there is none: nothing of two processors is mixed."""
    here = {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0))}
    for results in machines:
        if {key: results.get(key) for key in here} == here:
            return results
    machines.append({**here, "cases": {}})
    return machines[-1]


def measure(part: str, results: Results, quick: bool) -> None:
    """One part, written into the results."""
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


def say(what: str) -> None:
    """What is being measured now."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
