"""Whether a change keeps the speed: `python -m tools.speed [BASE] [--pairs 30]`.

Runs the same rounds in a checkout of BASE (default: the last commit) and in this working tree, in turns, and compares
the processor time of both: the median of the pairs' ratios with its 95 % interval (from the order statistics). Meant
for a quiet machine; a ratio above 1 means that this tree is slower.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from tools.bits import HERE, checkout

CHILD = """
import json, time
import fedtrip

seconds = {}
for method, model, dataset, rounds in (("fedavg", "mlp", "digits", 30), ("fedtrip-auto", "mlp", "digits", 30)):
    def run(rounds):
        for name in (method, "fedtrip"):  # what fedtrip-auto was called before
            try:
                return fedtrip.run(
                    fedtrip.Experiment(method=name, model=model, dataset=dataset, rounds=rounds, seed=1), workers=1)
            except fedtrip.UserError:
                pass
    run(2)
    began = time.process_time()
    run(rounds)
    seconds[f"{method}, {model}, {dataset}"] = time.process_time() - began
print(json.dumps(seconds))
"""


def seconds_of(tree: Path) -> dict[str, float]:
    """Processor time of each case with the sources of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, cwd=tree, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """A 95 % interval of the median: the order statistics n/2 ± √n."""
    ordered, count = sorted(values), len(values)
    half = math.sqrt(count)
    return ordered[max(0, math.floor(count / 2 - half))], ordered[min(count - 1, math.ceil(count / 2 + half) - 1)]


def main() -> None:
    """Measure in turns, and say how the two compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.speed", description=__doc__)
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit to compare with (default: the last one)")
    parser.add_argument("--pairs", type=int, default=30, help="pairs of measurements (default: 30)")
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {}
    with checkout(arguments.base) as tree:
        for _ in range(arguments.pairs):
            before, now = seconds_of(tree), seconds_of(HERE)
            for case in before:
                ratios.setdefault(case, []).append(now[case] / before[case])
    for case, values in ratios.items():
        low, high = interval(values)
        print(f"{case}: {statistics.median(values):.3f} [{low:.3f}, {high:.3f}] of {arguments.base}'s processor time")


if __name__ == "__main__":
    main()
