"""Server time of the rules of combining: `python -m bench.combining [--quick]`. Nothing else should run meanwhile.

From the last upload to the combined vector, as in a round (the differences to what was received included), on one
thread, against |S| and |w|. All rules of a size are measured in turns in one process; a cell is the median of the turns
in milliseconds, and what that is over the mean's time. Beside it the multiply-adds that the rule is counted with.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import torch

from bench.turns import Work, interleaved
from fedtrip.combining.interface import Plan
from fedtrip.families import COMBINE
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.interface import Upload
from fedtrip.randomness import stream
from fedtrip.rounds.tally import Tally

SIZES = ((10, 79_510), (50, 79_510), (10, 1_000_000), (50, 1_000_000), (10, 11_000_000))
"""|S| and |w|: the paper's MLP, a million, a ResNet-18."""
QUICK = ((5, 1_000),)
RULES = ("mean", "median", "trimmed:0.2", "geometric", "krum:1", "multikrum:1", "clip", "centered", "private:0.01")
TURNS = 7


def works(clients: int, numbers: int) -> dict[str, Work]:
    """Combining the same uploads by every rule."""
    generator = torch.Generator().manual_seed(0)
    received = {"w": torch.randn(numbers, generator=generator)}
    uploads = [
        Upload(k, 100 + k, {"w": received["w"] + 0.01 * torch.randn(numbers, generator=generator)})
        for k in range(clients)
    ]
    return {rule: Work(lambda rule=rule: combined(rule, received, uploads)) for rule in RULES}  # type: ignore[misc]


def combined(rule: str, received: dict[str, torch.Tensor], uploads: Sequence[Upload]) -> torch.Tensor:
    """What the server makes of the uploads."""
    combine = COMBINE.make(rule).as_planned(Plan(10 * len(uploads), len(uploads), rounds=1))
    tally = Tally(FedAvg(), combine, received, received, keep_all=False)
    for upload in uploads:
        tally.add(upload)
    return tally.combined(combine.start(received), stream(0, "combining"))[0].mean("w")


def main() -> None:
    """Measure every rule for every size and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.combining", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny vectors: only to see that it runs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    for clients, numbers in QUICK if quick else SIZES:
        seconds = interleaved(works(clients, numbers), 1 if quick else TURNS)
        base = statistics.median(seconds["mean"])
        print(f"|S| = {clients}, |w| = {numbers:,}:")
        for rule, turns in seconds.items():
            took, made = statistics.median(turns), COMBINE.make(rule)
            operations = clients + made.further_operations(clients)
            print(
                f"  {rule:<12} {1e3 * took:10.2f} ms {took / base:8.1f}× the mean; {operations:5d}·|w| counted",
                flush=True,
            )


if __name__ == "__main__":
    main()
