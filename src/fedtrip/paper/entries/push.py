"""Our own study: how far FedTrip's term should push a client in a round, whatever the model and the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedtrip.comparison.tables import interval
from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.figures.palette import Look, look
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.paper.entries.choice import POOLED, RULE_OF_CHOICE, chosen, gain_on, speedup_on, standings_table
from fedtrip.paper.entries.reach import mu_and_push, travel_of_a_round
from fedtrip.paper.entries.rounds_cases import case_title
from fedtrip.paper.entries.xi_lines import (
    BASELINE,
    CHOICE_SEEDS,
    HARDER,
    HARDER_TITLES,
    REPORT_SEEDS,
    RULES,
    study_cases,
    trips_and_baseline,
)
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import final_accuracy, ratio_fields, rounds_fields, rounds_of, shown_final, shown_rounds
from fedtrip.paper.page import MISSING, Page, points

PUSHES = (0.6, 0.75, 0.9, 1.25, 1.6)
RULE = "annealed"
PAPERS_MU = "paper's μ"
EVERYBODY = "mlp-fmnist-10of10"
TITLES = {
    **{case: case_title(*what) for case, what in study_cases().items()},
    **HARDER_TITLES,
    EVERYBODY: "MLP FMNIST 75%, 10 of 10",
}
LOWEST_SHOWN = 4
"""points below FedAvg at which the figure ends: a variant that collapsed must not flatten all others"""
NOTE = (
    "Push: μ times how far a round's local steps travel on a constant gradient of one, the momentum included. With "
    "ξ = 1 the term alone moves a client so many times the distance from its historical to the global model. Here ξ is "
    f"*{RULE}*, and μ is what gives each push, or the paper's. Speed-up: rounds to target of FedAvg over the "
    "variant's, geometric mean paired by seed with its 95 % interval. Gain: final accuracy (mean of the last 10 "
    f"rounds) less FedAvg's, in points. Seeds {CHOICE_SEEDS[0]} to {CHOICE_SEEDS[-1]} are for choosing, "
    f"{REPORT_SEEDS[0]} to {REPORT_SEEDS[-1]} for reporting what was chosen."
)


def label(push: float) -> str:
    return f"push {push}"


VARIANTS = [PAPERS_MU, *map(label, PUSHES)]


def lines() -> tuple[Line, ...]:
    """The cases of the study of ξ, and one in which all clients take part in every round."""
    found = []
    settings: list[tuple[str, str, dict[str, Any]]] = [(case, case, {}) for case in (*study_cases(), *HARDER)]
    for case, like, fields in (*settings, (EVERYBODY, "mlp-fmnist", {"per_round": 10})):
        travel = travel_of_a_round(trips_and_baseline(like, {})[0].experiment)
        pushed = {label(push): {"name": RULES[RULE], "mu": round(push / travel, 4)} for push in PUSHES}
        variants: dict[str, dict[str, Any]] = {PAPERS_MU: {"name": RULES[RULE]}, **pushed}
        found += [replace(line, case=case) for line in trips_and_baseline(like, variants, **fields)]
    return tuple(found)


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "How far to push",
        ["case", "variant", "μ", "push", "rounds to target", "speed-up, choosing", "speed-up, reporting",
         "final accuracy %", "gain"],
        notes=[NOTE],
        figures=["push"],
    )  # fmt: skip
    for line in findings.lines:
        case, variant = line.case, line.label
        runs, base = findings.paired(case, variant, BASELINE)
        if not runs:
            continue
        mu, push = mu_and_push(line)
        rounds = rounds_of(findings, case, variant)
        final = final_accuracy(runs)
        choosing, reporting = (speedup_on(findings, case, variant, seeds) for seeds in (CHOICE_SEEDS, REPORT_SEEDS))
        gain = final.mean - final_accuracy(base).mean
        page.rows.append(
            [
                TITLES[case], variant,
                MISSING if mu is None else f"{mu:.4g}", MISSING if push is None else f"{push:.2f}",
                shown_rounds(rounds), *("1" if mu is None else interval(ratio) for ratio in (choosing, reporting)),
                shown_final(runs), MISSING if mu is None else points(gain),
            ]
        )  # fmt: skip
        page.records.append(
            {
                "case": case, "variant": variant, "mu": mu, "push": push, **rounds_fields(rounds),
                "final_accuracy_mean": final.mean, "final_accuracy_std": final.std, "gain": gain,
                **ratio_fields("choosing_speedup", choosing), **ratio_fields("reporting_speedup", reporting),
            }
        )  # fmt: skip
    best = chosen(findings, VARIANTS)
    if best is not None:
        page.notes += [standings_table(findings, VARIANTS), POOLED, f"**Chosen: {best.label}.** {RULE_OF_CHOICE}"]
    page.write(folder)
    _draw(findings, folder / "push")


def _draw(findings: Findings, stem: Path) -> None:
    """Speed-up and gain on the choosing seeds against the push, a line for each case; the paper's μ as a cross."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for number, case in enumerate(findings.cases):
            _draw_case(findings, case, look(number), left, right)
        for axes, nothing in ((left, 1), (right, 0)):
            axes.axhline(nothing, color="0.4", linewidth=0.8)
            axes.axvline(FedTripAuto.push, color="0.4", linewidth=0.8, linestyle=":")
            axes.set_xlabel("push of a round (×: the paper's μ)")
        left.set(ylabel="speed-up over FedAvg (rounds to target)", yscale="log")
        left.minorticks_off()
        left.set_yticks([0.5, 1, 1.5, 2, 3], ["0.5×", "1×", "1.5×", "2×", "3×"])
        right.set(ylabel=f"final accuracy less FedAvg's, points (cut at −{LOWEST_SHOWN})")
        handles, names = left.get_legend_handles_labels()
        if names:
            figure.legend(handles, names, loc="outside lower center", ncols=4)
        save_both(figure, stem)


def _draw_case(findings: Findings, case: str, style: Look, left: Axes, right: Axes) -> None:
    colour, dashes = style
    places: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
    for line in (line for line in findings.lines if line.case == case and line.label != BASELINE):
        speed = speedup_on(findings, case, line.label, CHOICE_SEEDS)
        push = mu_and_push(line)[1]
        if speed is not None and push is not None:
            gain = 100 * gain_on(findings, case, line.label, CHOICE_SEEDS)
            places[line.label == PAPERS_MU].append((push, speed.mean, max(gain, -LOWEST_SHOWN)))
    look_of: dict[bool, dict[str, Any]] = {
        False: {"linestyle": dashes, "marker": "o", "markersize": 4, "linewidth": 1.3, "label": TITLES[case]},
        True: {"linestyle": "", "marker": "x", "label": None},
    }
    for papers, found in places.items():
        for axes, height in ((left, 1), (right, 2)):
            axes.plot([p[0] for p in found], [p[height] for p in found], color=colour, **look_of[papers])


ENTRY = Entry("push", "our study of how far FedTrip should push a client: μ from the local steps", write, lines())
