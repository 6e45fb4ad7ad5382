"""Run all measurements and write bench/results.json, bench/scaling.png and bench/README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from bench.cases import CASES
from bench.measure import attaching, layers_of_cnn, scaling, sgemm_rate, whole_rounds
from bench.memory import FEDERATIONS, peak_memory
from bench.report import draw_scaling, write_report
from fedtrip.runs.result import versions
from fedtrip.training.costs import pass_cost

HERE = Path(__file__).parent


def main() -> None:
    """Measure everything (a quarter of an hour), or only the models named on the command line, and keep the rest.

    Nothing else should run on the machine meanwhile.
    """
    torch.set_num_threads(1)
    named = [name for name in sys.argv[1:] if name in CASES]
    kept = HERE / "results.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if named and kept.exists() else {}
    results |= {"versions": versions(), "sgemm_macs_per_second": sgemm_rate()}
    if not named:
        for name in FEDERATIONS:
            say(f"memory: {name}")
            results[name] = peak_memory(name)
    for name in named or CASES:
        results[name] = measured(name)
    if not named:
        say("scaling")
        results["scaling"] = scaling()
    say("layers of the CNN")
    results["layers"] = layers_of_cnn()
    kept.write_text(json.dumps(results, indent=1) + "\n")
    draw_scaling(results["scaling"], HERE / "scaling.png")
    (HERE / "README.md").write_text(write_report(results))
    say(f"written: {HERE / 'README.md'}")


def measured(name: str) -> dict[str, Any]:
    """Everything about one model."""
    case = CASES[name]
    cost = pass_cost(case.federation().module, case.shape)
    say(f"whole rounds: {name}")
    rounds = whole_rounds(case)
    say(f"methods against FedAvg: {name}")
    return {
        **rounds,
        "training_macs": cost.training * case.samples * 4,
        "forward_macs": cost.forward * case.test,
        "attaching": attaching(case, ("fedavg", "fedtrip", "fedprox", "feddyn")),
    }


def say(what: str) -> None:
    """What is being measured now."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
