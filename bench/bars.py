"""What must be reached, and whether it is: a bar is missed only if the whole interval lies beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.intervals import Bar, Interval

COMPARE = Bar(12.0, is_most=True)
"""Seconds of `fedtrip compare` from the prompt."""
FEWEST_TURNS = 6
"""With fewer no interval is a 95 % one."""


@dataclass(frozen=True)
class Figure:
    """One figure of a model: where it stands in its measurements, and how it is written."""

    title: str
    found: Callable[[dict[str, Any]], dict[str, float]]
    is_share: bool = False
    only_avx2: bool = False
    """whether its bars are meant for AVX2 kernels alone"""

    def interval(self, case: dict[str, Any]) -> Interval:
        return Interval(**self.found(case))

    def number(self, value: float) -> str:
        return (
            f"{value:.0%}" if self.is_share else f"{value:.3f}" if self.title.startswith("FedTrip") else f"{value:.2f}"
        )

    def written(self, case: dict[str, Any]) -> str:
        """The median with its interval."""
        found = self.interval(case)
        return f"**{self.number(found.median)}** [{self.number(found.low)}, {self.number(found.high)}]"


TRAINING = Figure("training, share of sgemm", lambda case: case["share"]["training"], is_share=True)
EVALUATION = Figure("evaluation, share of sgemm", lambda case: case["share"]["evaluation"], is_share=True)
TORCH_TRAINING = Figure("training by torch over ours", lambda case: case["torch over ours"]["training"])
TORCH_EVALUATION = Figure("evaluation by torch over ours", lambda case: case["torch over ours"]["evaluation"])
ONE = Figure("plain loop over ours, 1 worker", lambda case: case["ratio"]["1 worker"], only_avx2=True)
TWO = Figure("1 worker over 2 workers", lambda case: case["workers"])
FEDTRIP = Figure("FedTrip's training over FedAvg's", lambda case: case["over fedavg"]["fedtrip"])


def _bars(first: dict[Figure, float], one: float, two: float, fedtrip: float) -> dict[Figure, Bar]:
    bars = {figure: Bar(value) for figure, value in {**first, ONE: one, TWO: two}.items()}
    return {**bars, FEDTRIP: Bar(fedtrip, is_most=True)}


BARS: dict[str, dict[Figure, Bar]] = {
    "mlp": _bars({TRAINING: 0.65, EVALUATION: 0.75}, 4.0, 1.7, 1.03),
    "cnn": _bars({TRAINING: 0.65, EVALUATION: 0.75}, 5.3, 1.75, 1.01),
    "small3": _bars({TRAINING: 0.60, EVALUATION: 0.75}, 3.7, 1.75, 1.01),
    "mcmahan": _bars({TORCH_TRAINING: 1.0, EVALUATION: 0.80}, 1.7, 1.8, 1.02),
    "alexnet": _bars({TORCH_TRAINING: 1.0, TORCH_EVALUATION: 1.0}, 1.1, 1.8, 1.01),
}


def verdict(name: str, figure: Figure, case: dict[str, Any]) -> str:
    """What the figure says about its bar in this setting."""
    if figure.only_avx2 and case["kernels"] != "avx2":
        return "meant for AVX2"
    if figure in (TORCH_TRAINING, TORCH_EVALUATION) and case["compute"] == "torch":
        return "not measured: ours is torch here"  # it would be compared with itself
    if case["turns"] < FEWEST_TURNS:
        return "too few turns"
    return BARS[name][figure].verdict(figure.interval(case))


def bar_in_words(name: str, figure: Figure) -> str:
    """`≥ 65%`."""
    bar = BARS[name][figure]
    return f"{'≤' if bar.is_most else '≥'} {figure.number(bar.value)}"
