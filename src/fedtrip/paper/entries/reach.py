"""Our own study: how far FedTrip's term may push a client in a round, when clients make many local steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.experiment.description import Experiment
from fedtrip.figures.curves import common_rounds
from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.figures.palette import COLOURS, look
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.methods.interface import make_method
from fedtrip.optimizers.sgd import Sgd
from fedtrip.paper.entries.xi_lines import BASELINE
from fedtrip.paper.entries.xi_lines import RULES as RULES_OF_XI
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import final_accuracy, rounds_fields, rounds_of, shown_final, shown_rounds
from fedtrip.paper.page import MISSING, Page, points
from fedtrip.paper.settings import paper_experiment
from fedtrip.paper.study_rules import InverseGapNorm
from fedtrip.statistics import estimate, student_interval

EPOCHS = (1, 5, 10)
PUSHES = (0.3, 0.6, 0.75, 1.25, 2.5, 5.0)
RULES = ("1/gap", "annealed")
OURS = "fedtrip-auto"
PAPER = "1/gap"
MANY_SAMPLES = "cnn-emnist47"
"""Table 4's case with the most samples a client: 60 steps in one epoch"""
NOTE = (
    "Push: μ times how far a round's local steps travel on a constant gradient of one, the momentum included. With "
    "ξ = 1 the term alone moves a client so many times the distance from its historical to the global model. The MLP "
    "on FMNIST, Dir-0.5, 30 rounds, with the μ that gives each push; the CNN on MNIST, Dir-0.5, 20 rounds, as in "
    f"Table 7, and on EMNIST47, as in Table 4, with the paper's μ = 0.4 and with {OURS}, whose push is "
    f"{FedTripAuto.push}. Final accuracy: mean of the last 10 rounds; gain: final accuracy less FedAvg's, in points, "
    "paired by seed with its 95 % interval."
)


def mlp_case(epochs: int) -> str:
    return f"mlp-fmnist-epochs-{epochs}"


def cnn_case(epochs: int) -> str:
    return f"cnn-mnist-epochs-{epochs}"


def travel_of_a_round(experiment: Experiment) -> float:
    """`Local.travel` of a client of a known data set with the paper's number of samples."""
    samples = KNOWN_SETS[experiment.dataset].samples_per_client
    steps = experiment.local_epochs * math.ceil(samples / experiment.batch_size)
    return Sgd(FedTrip.momentum).travel(experiment.lr, steps, kept=False)


def lines() -> tuple[Line, ...]:
    found = []
    for epochs in EPOCHS:
        setting: dict[str, Any] = {"local_epochs": epochs, "rounds": 30}
        travel = travel_of_a_round(paper_experiment("fashion-mnist", "mlp", "fedavg", **setting))
        variants: dict[str, dict[str, Any]] = {
            label(rule, push): {"name": RULES_OF_XI[rule], "mu": round(push / travel, 4)}
            for rule in RULES
            for push in PUSHES
        }
        found += _with_baseline(mlp_case(epochs), "fashion-mnist", "mlp", variants, setting)
    for epochs in EPOCHS[1:]:
        setting = {"local_epochs": epochs, "rounds": 20}
        readings: dict[str, dict[str, Any]] = {
            rule: {"name": RULES_OF_XI[rule]} for rule in (PAPER, "gap norm", "1/gap norm")
        }
        variants = {OURS: {"name": OURS}, **readings}
        found += _with_baseline(cnn_case(epochs), "mnist", "cnn", variants, setting)
    variants = {OURS: {"name": OURS}, PAPER: {"name": RULES_OF_XI[PAPER]}}
    found += _with_baseline(MANY_SAMPLES, "emnist47", "cnn", variants, {})
    return tuple(found)


def _with_baseline(
    case: str, dataset: str, model: str, variants: Mapping[str, dict[str, Any]], setting: Mapping[str, Any]
) -> list[Line]:
    trips = [Line(case, name, paper_experiment(dataset, model, method, **setting)) for name, method in variants.items()]
    return [Line(case, BASELINE, paper_experiment(dataset, model, "fedavg", **setting)), *trips]


def label(rule: str, push: float) -> str:
    return f"{rule} push {push}"


def gains(findings: Findings, case: str, name: str) -> list[float]:
    """Final accuracy less FedAvg's, on the seeds that both have."""
    runs, base = findings.paired(case, name, BASELINE)
    return [(a.final_accuracy or 0.0) - (b.final_accuracy or 0.0) for a, b in zip(runs, base, strict=True)]


def collapsed(findings: Findings, case: str, name: str) -> tuple[int, int]:
    """Trials whose last round is below half of FedAvg's accuracy, and how many there are."""
    runs, base = findings.paired(case, name, BASELINE)
    fallen = [run.curve[-1][1] < average.curve[-1][1] / 2 for run, average in zip(runs, base, strict=True)]
    return sum(fallen), len(fallen)


def write(findings: Findings, folder: Path) -> None:
    page = table(findings)
    page.title, page.notes, page.figures = "How far to push: many local steps", [NOTE], ["push"]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_gains(findings, left)
        _draw_curves(findings, right)
        save_both(figure, folder / "push")
    page.write(folder)


def table(findings: Findings, cases: Sequence[str] = ()) -> Page:
    """A row for each variant that has been run, of these cases or of all."""
    page = Page(
        "", ["case", "variant", "μ", "push", "rounds to target", "final accuracy %", "lowest trial", "gain [95 %]"]
    )
    for line in (line for line in findings.lines if not cases or line.case in cases):
        runs = findings.runs(line.case, line.label)
        if not runs:
            continue
        final = final_accuracy(runs.values())
        rounds = rounds_of(findings, line.case, line.label)
        mu, push = mu_and_push(line)
        gain = gains(findings, line.case, line.label)
        low, high = student_interval(gain) if len(gain) > 1 else (None, None)
        page.rows.append(
            [
                line.case,
                line.label,
                MISSING if mu is None else f"{mu:.4g}",
                MISSING if push is None else f"{push:.2f}",
                shown_rounds(rounds),
                shown_final(runs.values()),
                f"{100 * min(final.values):.2f}",
                MISSING if line.label == BASELINE or not gain else points(estimate(gain).mean, low, high),
            ]
        )
        page.records.append(
            {
                "case": line.case, "variant": line.label, "mu": mu, "push": push, **rounds_fields(rounds),
                "final_accuracy_mean": final.mean, "final_accuracy_std": final.std,
                "final_accuracy_lowest": min(final.values), "gain": estimate(gain).mean if gain else None,
                "gain_low": low, "gain_high": high,
            }
        )  # fmt: skip
    return page


def mu_and_push(line: Line) -> tuple[float | None, float | None]:
    """μ, and the push that it makes; of plain norms there is no such number."""
    experiment = line.experiment
    method = make_method(line.method, experiment.method.options, model=experiment.model, dataset=experiment.dataset)
    if not isinstance(method, FedTrip):
        return None, None
    travel = travel_of_a_round(experiment)
    mu = method.push / travel if isinstance(method, FedTripAuto) else method.mu
    return mu, None if isinstance(method, InverseGapNorm) else mu * travel


def _draw_gains(findings: Findings, axes: Axes) -> None:
    """Gain over FedAvg against the push, a line for each number of epochs and rule."""
    for epochs, colour in zip(EPOCHS, COLOURS, strict=False):
        for rule, style in zip(RULES, ("s--", "o-"), strict=True):
            found = {push: gains(findings, mlp_case(epochs), label(rule, push)) for push in PUSHES}
            points = [(push, 100 * estimate(values).mean) for push, values in found.items() if values]
            if points:
                plural = "" if epochs == 1 else "s"
                axes.plot(
                    *zip(*points, strict=True), style, color=colour, label=f"{epochs} epoch{plural}, {rule}",
                    linewidth=1.3, markersize=4, markerfacecolor="white" if style == "s--" else colour,
                )  # fmt: skip
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.axvline(FedTripAuto.push, color="0.4", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks(PUSHES, [f"{push:g}" for push in PUSHES])
    axes.minorticks_off()
    axes.set(title="MLP on FMNIST, Dir-0.5", xlabel="push of a round", ylabel="final accuracy less FedAvg's, points")
    _legend(axes, "lower left")


def _draw_curves(findings: Findings, axes: Axes) -> None:
    """Test accuracy over rounds with the most epochs: mean and range of the trials."""
    case = cnn_case(EPOCHS[-1])
    for number, name in enumerate(line.label for line in findings.lines if line.case == case):
        runs = list(findings.runs(case, name).values())
        if runs:
            rounds, accuracy = common_rounds(runs)
            colour, style = look(number)
            axes.plot(rounds, accuracy.mean(0), linestyle=style, color=colour, label=name, linewidth=1.4)
            axes.fill_between(rounds, accuracy.min(0), accuracy.max(0), color=colour, alpha=0.1, lw=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set(title=f"CNN on MNIST, Dir-0.5, {EPOCHS[-1]} epochs", xlabel="communication round", ylabel="test accuracy")
    _legend(axes, "center right")


def _legend(axes: Axes, where: Literal["lower left", "center right"]) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc=where, fontsize=8, frameon=True, edgecolor="none")
    else:
        axes.text(0.5, 0.5, "no finished run", ha="center", transform=axes.transAxes, color="0.5")


ENTRY = Entry("reach", "our study of how far FedTrip may push: many local steps", write, lines())
