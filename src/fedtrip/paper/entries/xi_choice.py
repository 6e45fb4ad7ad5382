"""Which rule the study of ξ chooses: the fastest that ends nowhere below FedAvg, on the choosing seeds alone."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.history import History
from fedtrip.paper.entries.xi_lines import BASELINE, CHOICE_SEEDS, KEPT, RULES, xi_lines
from fedtrip.paper.entry import Findings
from fedtrip.paper.measures import rounds_ratio
from fedtrip.statistics import Ratio


@dataclass(frozen=True)
class Standing:
    """How a rule did over all cases."""

    label: str
    speedup: float
    """over FedAvg with the same rule for the momentum, geometric mean over the cases"""
    lowest_gain: float
    """final accuracy less FedAvg's, in the case where that is smallest"""

    @property
    def admissible(self) -> bool:
        """Whether it ends nowhere below FedAvg."""
        return self.lowest_gain >= 0


def standings(findings: Findings, seeds: range = CHOICE_SEEDS) -> list[Standing]:
    """Every rule that has been run on all these seeds in all cases, the fastest first."""
    found = []
    for label in (rule + ending for rule in RULES for ending in ("", KEPT)):
        ratio = over_all_cases(findings, label, seeds)
        if ratio is not None:
            found.append(
                Standing(label, ratio.mean, min(gain_on(findings, case, label, seeds) for case in cases_of(label)))
            )
    return sorted(found, key=lambda standing: -standing.speedup)


def chosen(findings: Findings) -> Standing | None:
    """The fastest admissible rule with the momentum reset, as the paper and the other methods have it."""
    candidates = [one for one in standings(findings) if one.admissible and not one.label.endswith(KEPT)]
    return candidates[0] if candidates else None


def cases_of(label: str) -> list[str]:
    """The cases in which a variant is run with the paper's μ."""
    return [line.case for line in xi_lines() if line.label == label]


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
    for case in cases_of(label):
        baseline, runs = findings.runs(case, baseline_of(label)), findings.runs(case, label)
        if any(seed not in baseline or seed not in runs for seed in seeds):
            return None
        all_baseline += [baseline[seed] for seed in seeds]
        all_runs += [runs[seed] for seed in seeds]
    return rounds_ratio(all_baseline, all_runs)


def gain_on(findings: Findings, case: str, label: str, seeds: range) -> float:
    """Mean final accuracy less FedAvg's on these seeds."""
    baseline, runs = findings.runs(case, baseline_of(label)), findings.runs(case, label)
    return sum((runs[s].final_accuracy or 0.0) - (baseline[s].final_accuracy or 0.0) for s in seeds) / len(seeds)
