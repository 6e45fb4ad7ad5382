"""What is read off the finished trials of a line: rounds to target, and speed-ups paired by seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedtrip.comparison.variants import rounds_ratio, rounds_to_target
from fedtrip.paper.entry import Findings
from fedtrip.paper.page import ENDED, MISSING, spread
from fedtrip.runs.history import History
from fedtrip.statistics import Estimate, Ratio, estimate


@dataclass(frozen=True)
class Rounds:
    """Rounds to target over the trials."""

    estimate: Estimate
    censored: int
    """trials that never got there and count as their last round"""

    @property
    def trials(self) -> int:
        return len(self.estimate.values)

    @property
    def bound(self) -> str:
        """'>' if the mean is a lower bound."""
        return ">" if self.censored else ""


def rounds_of(findings: Findings, case: str, label: str) -> Rounds | None:
    """Rounds to target of a line's finished trials; None if there is none."""
    runs = list(findings.runs(case, label).values())
    if not runs:
        return None
    rounds, censored = rounds_to_target(runs)
    return Rounds(estimate(rounds), sum(censored))


def rounds_fields(rounds: Rounds | None) -> dict[str, float | None]:
    """The rounds as fields of a record."""
    if rounds is None:
        return {"trials": 0, "rounds_mean": None, "rounds_std": None, "censored": None}
    return {
        "trials": rounds.trials,
        "rounds_mean": rounds.estimate.mean,
        "rounds_std": rounds.estimate.std,
        "censored": rounds.censored,
    }


def shown_rounds(rounds: Rounds | None) -> str:
    """The rounds as a cell: mean ± standard deviation (trials)."""
    return MISSING if rounds is None else f"{spread(rounds.estimate, bound=rounds.bound)} ({rounds.trials})"


def shown_final(runs: Iterable[History]) -> str:
    """Final accuracy in per cent as a cell, marked if a run ended before its last round."""
    some = list(runs)
    return spread(final_accuracy(some), 2, 100) + ENDED * any(run.ended is not None for run in some)


def final_accuracy(runs: Iterable[History]) -> Estimate:
    """Over the trials."""
    return estimate([run.final_accuracy or 0.0 for run in runs])


def ratio_fields(name: str, ratio: Ratio | None) -> dict[str, float | str | None]:
    """A ratio and its interval as fields of a record."""
    values = (None,) * 5 if ratio is None else (ratio.mean, ratio.low, ratio.high, ratio.bound, ratio.left_out)
    return dict(zip((name, *(f"{name}_{end}" for end in ("low", "high", "bound", "left_out"))), values, strict=True))


def speedup(findings: Findings, case: str, baseline: str, label: str) -> Ratio | None:
    """The baseline's rounds over the line's, on the seeds that both have; None if there is none."""
    return None if baseline == label else rounds_ratio(*findings.paired(case, baseline, label))
