"""Our own study: which rule for ξ, with which penalty, and whether the momentum is kept."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedtrip.figures import STYLE, save_both
from fedtrip.palette import COLOURS
from fedtrip.paper.entries.rounds_cases import case_title
from fedtrip.paper.entries.xi_choice import chosen, over_all_cases, speedup_on, standings
from fedtrip.paper.entries.xi_lines import (
    BASELINE,
    CHOICE_SEEDS,
    KEPT,
    REPORT_SEEDS,
    mu_lines,
    study_cases,
    xi_lines,
)
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.measures import ratio_fields, rounds_fields, rounds_of, shown_rounds
from fedtrip.paper.page import Page, interval, spread
from fedtrip.statistics import estimate
from fedtrip.variants import rounds_to_target

NOTE = (
    "Speed-up: rounds to target of FedAvg *with the same rule for the momentum* (reset at every round, or kept) over "
    "the variant's, geometric mean paired by seed with its 95 % interval. Final accuracy: mean of the last 10 rounds. "
    f"Seeds {CHOICE_SEEDS[0]} to {CHOICE_SEEDS[-1]} are for choosing, {REPORT_SEEDS[0]} to {REPORT_SEEDS[-1]} for "
    "reporting what was chosen."
)


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "The study of ξ",
        ["case", "variant", "rounds to target", "speed-up, choosing", "speed-up, reporting", "final accuracy %"],
        notes=[NOTE],
        figures=["xi"],
    )
    titles = {case: case_title(*what) for case, what in study_cases().items()}
    for case in findings.cases:
        for label in findings.labels(case):
            rounds = rounds_of(findings, case, label)
            final = estimate([run.final_accuracy or 0.0 for run in findings.runs(case, label).values()])
            choosing, reporting = (speedup_on(findings, case, label, seeds) for seeds in (CHOICE_SEEDS, REPORT_SEEDS))
            base = label.startswith(BASELINE)
            page.rows.append(
                [
                    titles.get(case, case),
                    label,
                    shown_rounds(rounds),
                    "1" if base else interval(choosing),
                    "1" if base else interval(reporting),
                    spread(final, 2, 100),
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


def standings_table(findings: Findings) -> str:
    """How the rules stand over all four cases, the fastest on the choosing seeds first; empty if none is complete."""
    table = Page(
        "", ["over all four cases", "speed-up, choosing", "lowest gain, choosing", "speed-up, reporting [95 %]"]
    )
    for one in standings(findings):
        reporting = interval(over_all_cases(findings, one.label, REPORT_SEEDS))
        table.rows.append([one.label, f"{one.speedup:.2f}×", f"{100 * one.lowest_gain:+.2f}", reporting])
    return table.markdown() if table.rows else ""


def _choice(findings: Findings) -> list[str]:
    """The standings and what is chosen."""
    best = chosen(findings)
    if best is None:
        return []
    return [
        standings_table(findings),
        f"**Chosen: {best.label}.** The rule: on the choosing seeds, of those that keep no momentum and whose lowest "
        "gain (final accuracy less FedAvg's in points, in the worst of the four cases) is not negative, the fastest.",
    ]


def _draw(findings: Findings, titles: dict[str, str], stem: Path) -> None:
    """Speed against final accuracy: each variant a point, better is up and right."""
    labels = list(dict.fromkeys(line.label for line in findings.lines if line.case in titles))
    plain = list(dict.fromkeys(label.removesuffix(KEPT) for label in labels))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 7.0), layout="constrained")
        for axes, (case, title) in zip(figure.subplots(2, 2).flat, titles.items(), strict=True):
            axes.set(title=title, xlabel="rounds to target", ylabel="final accuracy %")
            for label in labels:
                runs = list(findings.runs(case, label).values())
                if not runs:
                    continue
                rounds, _ = rounds_to_target(runs)
                accuracy = [100 * (run.final_accuracy or 0.0) for run in runs]
                number = plain.index(label.removesuffix(KEPT))
                axes.errorbar(
                    np.mean(rounds), np.mean(accuracy), xerr=_half(rounds), yerr=_half(accuracy),
                    fmt="s" if label.endswith(KEPT) else "o", color=COLOURS[number], label=label, markersize=5,
                    markerfacecolor="white" if label.endswith(KEPT) else COLOURS[number], capsize=2, linewidth=1,
                )  # fmt: skip
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5)
        save_both(figure, stem)


def _half(values: list[float]) -> float:
    """The standard error of the mean."""
    spread_of = estimate(values).std
    return 0.0 if spread_of is None else spread_of / len(values) ** 0.5


ENTRY = Entry("xi", "our study of ξ: rules, penalties, momentum reset or kept", write, (*xi_lines(), *mu_lines()))
