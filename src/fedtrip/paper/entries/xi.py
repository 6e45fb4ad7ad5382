"""Our own study: which rule for ξ, with which penalty, and whether the momentum is kept."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedtrip.comparison.tables import interval
from fedtrip.comparison.variants import rounds_to_target
from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.figures.palette import COLOURS
from fedtrip.paper.entries.choice import POOLED, RULE_OF_CHOICE, chosen, speedup_on, standings_table
from fedtrip.paper.entries.rounds_cases import case_title
from fedtrip.paper.entries.xi_lines import (
    BASELINE,
    CHOICE_SEEDS,
    HARDER_TITLES,
    KEPT,
    REPORT_SEEDS,
    RULES,
    mu_lines,
    study_cases,
    xi_lines,
)
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.measures import final_accuracy, ratio_fields, rounds_fields, rounds_of, shown_final, shown_rounds
from fedtrip.paper.page import Page
from fedtrip.runs.history import History
from fedtrip.statistics import estimate

NOTE = (
    "Speed-up: rounds to target of FedAvg *with the same rule for the momentum* (reset at every round, or kept) over "
    "the variant's, geometric mean paired by seed with its 95 % interval. Final accuracy: mean of the last 10 rounds. "
    f"Seeds {CHOICE_SEEDS[0]} to {CHOICE_SEEDS[-1]} are for choosing, {REPORT_SEEDS[0]} to {REPORT_SEEDS[-1]} for "
    "reporting what was chosen."
)

VARIANTS = [rule + ending for rule in RULES for ending in ("", KEPT)]


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "The study of ξ",
        ["case", "variant", "rounds to target", "speed-up, choosing", "speed-up, reporting", "final accuracy %"],
        notes=[NOTE],
        figures=["xi"],
    )
    titles = {**{case: case_title(*what) for case, what in study_cases().items()}, **HARDER_TITLES}
    for case in findings.cases:
        for label in findings.labels(case):
            rounds = rounds_of(findings, case, label)
            runs = findings.runs(case, label).values()
            final = final_accuracy(runs)
            choosing, reporting = (speedup_on(findings, case, label, seeds) for seeds in (CHOICE_SEEDS, REPORT_SEEDS))
            base = label.startswith(BASELINE)
            page.rows.append(
                [
                    titles.get(case, case),
                    label,
                    shown_rounds(rounds),
                    "1" if base else interval(choosing),
                    "1" if base else interval(reporting),
                    shown_final(runs),
                ]
            )
            page.records.append(
                {
                    "case": case,
                    "variant": label,
                    **rounds_fields(rounds),
                    "final_accuracy_mean": final.mean,
                    "final_accuracy_std": final.std,
                    **ratio_fields("choosing_speedup", choosing),
                    **ratio_fields("reporting_speedup", reporting),
                }
            )
    page.notes += _choice(findings)
    page.write(folder)
    _draw(findings, titles, folder / "xi")


def _choice(findings: Findings) -> list[str]:
    """The standings and what is chosen."""
    best = chosen(findings, VARIANTS)
    if best is None:
        return []
    return [standings_table(findings, VARIANTS), POOLED, f"**Chosen: {best.label}.** {RULE_OF_CHOICE}"]


def _draw(findings: Findings, titles: dict[str, str], stem: Path) -> None:
    """Final accuracy against rounds to target, each variant a point: better is up and left."""
    rules = [BASELINE, *RULES]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 9.5), layout="constrained")
        for axes, (case, title) in zip(figure.subplots(3, 2).flat, titles.items(), strict=True):
            axes.set(title=title, xlabel="rounds to target", ylabel="final accuracy %")
            floor = _lowest_shown(findings, case)
            collapsed = []
            for rule, colour in zip(rules, COLOURS, strict=False):
                for kept in (False, True):
                    label = rule + KEPT * kept
                    runs = list(findings.runs(case, label).values())
                    if runs and (final := _point(axes, runs, colour, kept, floor)) < floor:
                        collapsed.append(f"{label}: {final:.0f} %")
            axes.text(0.98, 0.09, "\n".join(collapsed), transform=axes.transAxes, ha="right", va="bottom", fontsize=8)
        handles = [Line2D([], [], linestyle="", marker="o", color=COLOURS[n], label=r) for n, r in enumerate(rules)]
        handles += [_shape("momentum reset", kept=False), _shape("momentum kept", kept=True)]
        figure.legend(handles=handles, loc="outside lower center", ncols=5)
        save_both(figure, stem)


def _point(axes: Axes, runs: list[History], colour: str, kept: bool, floor: float) -> float:
    """Mean and standard error, or an arrow at the lower edge; returns the mean final accuracy."""
    rounds, _ = rounds_to_target(runs)
    accuracy = [100 * (run.final_accuracy or 0.0) for run in runs]
    final = float(np.mean(accuracy))
    below = final < floor
    axes.errorbar(
        float(np.mean(rounds)), floor if below else final,
        xerr=_half(rounds), yerr=0 if below else _half(accuracy), capsize=2, linewidth=1, color=colour,
        fmt="v" if below else "s" if kept else "o", markerfacecolor="white" if kept else colour, markersize=5,
    )  # fmt: skip
    return final


def _lowest_shown(findings: Findings, case: str) -> float:
    """A little below FedAvg: a variant that collapsed must not flatten all others."""
    accuracies = [100 * (run.final_accuracy or 0.0) for run in findings.runs(case, BASELINE).values()]
    return float(np.mean(accuracies)) - 4 if accuracies else 0.0


def _shape(label: str, *, kept: bool) -> Line2D:
    marker, fill = ("s", "white") if kept else ("o", "0.4")
    return Line2D([], [], linestyle="", marker=marker, color="0.4", markerfacecolor=fill, label=label)


def _half(values: list[float]) -> float:
    """The standard error of the mean."""
    spread_of = estimate(values).std
    return 0.0 if spread_of is None else spread_of / len(values) ** 0.5


ENTRY = Entry("xi", "our study of ξ: rules, penalties, momentum reset or kept", write, (*xi_lines(), *mu_lines()))
