"""Run all measurements and write bench/results.json, bench/scaling.png and bench/README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from bench.cases import CASES
from bench.measure import attaching, layers_of_cnn, million_clients, scaling, sgemm_rate, whole_rounds
from bench.report import draw_scaling, write_report
from fedtrip.costs import pass_cost
from fedtrip.result import versions

HERE = Path(__file__).parent


def main() -> None:
    """Everything takes about ten minutes; nothing else should run on the machine meanwhile."""
    torch.set_num_threads(1)
    results: dict[str, object] = {"versions": versions(), "sgemm_macs_per_second": sgemm_rate()}

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    say("a million clients")  # first, because memory is counted from the start of the process
    results["million"] = million_clients()
    for name, case in CASES.items():
        say(f"whole rounds: {name}")
        federation = case.federation()
        results[name] = {
            **whole_rounds(case),
            "training_macs": pass_cost(federation.module, case.shape).training * case.samples * 4,
            "forward_macs": pass_cost(federation.module, case.shape).forward * case.test,
        }
        say(f"methods against FedAvg: {name}")
        results[name]["attaching"] = attaching(case, ("fedavg", "fedtrip", "fedprox", "feddyn"))
    say("scaling")
    results["scaling"] = scaling()
    say("layers of the CNN")
    results["layers"] = layers_of_cnn()
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw_scaling(results["scaling"], HERE / "scaling.png")
    (HERE / "README.md").write_text(write_report(results))
    say(f"written: {HERE / 'README.md'}")


if __name__ == "__main__":
    main()
