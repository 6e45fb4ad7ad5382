"""Which variant of FedTrip a study chooses: the fastest that ends nowhere below FedAvg, on the choosing seeds alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedtrip.comparison.tables import interval
from fedtrip.comparison.variants import rounds_ratio
from fedtrip.paper.entries.xi_lines import BASELINE, CHOICE_SEEDS, KEPT, REPORT_SEEDS
from fedtrip.paper.entry import Findings, unique
from fedtrip.paper.page import Page, points
from fedtrip.runs.history import History
from fedtrip.statistics import Ratio

RULE_OF_CHOICE = (
    "The rule: on the choosing seeds, of those that keep no momentum and whose lowest gain (final accuracy less "
    "FedAvg's in points, in the worst of the cases) is not negative, the fastest."
)
POOLED = (
    "Over all cases: the pairs of all cases are pooled as if they were independent. They are not quite, because a seed "
    "draws the same clients in every case; so the intervals may be too narrow."
)


@dataclass(frozen=True)
class Standing:
    """How a variant did over all its cases."""

    label: str
    speedup: float
    """over FedAvg with the same rule for the momentum, geometric mean over the cases"""
    lowest_gain: float
    """final accuracy less FedAvg's, in the case where that is smallest"""

    @property
    def admissible(self) -> bool:
        """Whether it ends nowhere below FedAvg."""
        return self.lowest_gain >= 0


def standings(findings: Findings, labels: Iterable[str], seeds: range = CHOICE_SEEDS) -> list[Standing]:
    """Every variant that has been run on all these seeds in all its cases, the fastest first."""
    found = []
    for label in labels:
        ratio = over_all_cases(findings, label, seeds)
        if ratio is not None:
            gains = [gain_on(findings, case, label, seeds) for case in cases_of(findings, label)]
            found.append(Standing(label, ratio.mean, min(gains)))
    return sorted(found, key=lambda standing: -standing.speedup)


def chosen(findings: Findings, labels: Iterable[str]) -> Standing | None:
    """The fastest admissible variant with the momentum reset, as the paper and the other methods have it."""
    candidates = [one for one in standings(findings, labels) if one.admissible and not one.label.endswith(KEPT)]
    return candidates[0] if candidates else None


def standings_table(findings: Findings, labels: Iterable[str]) -> str:
    """How the variants stand over all cases, the fastest on the choosing seeds first; empty if none is complete."""
    table = Page("", ["over all cases", "speed-up, choosing", "lowest gain, choosing", "speed-up, reporting [95 %]"])
    for one in standings(findings, labels):
        reporting = interval(over_all_cases(findings, one.label, REPORT_SEEDS))
        table.rows.append([one.label, f"{one.speedup:.2f}×", points(one.lowest_gain), reporting])
    return table.markdown() if table.rows else ""


def cases_of(findings: Findings, label: str) -> list[str]:
    """The cases in which a variant is run."""
    return unique(line.case for line in findings.lines if line.label == label)


def baseline_of(label: str) -> str:
    """FedAvg with the same rule for the momentum."""
    return BASELINE + (KEPT if label.endswith(KEPT) else "")


def speedup_on(findings: Findings, case: str, label: str, seeds: range) -> Ratio | None:
    """Rounds to target against FedAvg's in one case, on those of the seeds that are there."""
    baseline, runs = findings.runs(case, baseline_of(label)), findings.runs(case, label)
    common = [seed for seed in seeds if seed in baseline and seed in runs]
    return rounds_ratio([baseline[seed] for seed in common], [runs[seed] for seed in common])


def over_all_cases(findings: Findings, label: str, seeds: range) -> Ratio | None:
    """The speed-up over all pairs of runs of a variant's cases; None if one of them is missing."""
    all_baseline: list[History] = []
    all_runs: list[History] = []
    for case in cases_of(findings, label):
        baseline, runs = findings.runs(case, baseline_of(label)), findings.runs(case, label)
        if any(seed not in baseline or seed not in runs for seed in seeds):
            return None
        all_baseline += [baseline[seed] for seed in seeds]
        all_runs += [runs[seed] for seed in seeds]
    return rounds_ratio(all_baseline, all_runs)


def gain_on(findings: Findings, case: str, label: str, seeds: range) -> float:
    """Mean final accuracy less FedAvg's, on those of the seeds that are there."""
    baseline, runs = findings.runs(case, baseline_of(label)), findings.runs(case, label)
    common = [seed for seed in seeds if seed in baseline and seed in runs]
    return sum((runs[s].final_accuracy or 0.0) - (baseline[s].final_accuracy or 0.0) for s in common) / len(common)
