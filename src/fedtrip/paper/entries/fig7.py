"""Figure 7: how FedTrip's accuracy and rounds to target depend on μ, from 0.1 to 2.5."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import rounds_of
from fedtrip.paper.page import Page, spread
from fedtrip.paper.settings import DATASET_TITLES, MODEL_TITLES, PARTITION_TITLES, paper_experiment
from fedtrip.statistics import estimate

MUS = (0.1, 0.4, 0.7, 1.0, 1.5, 2.0, 2.5)
ACCURACY, ROUNDS = "#0072B2", "#D55E00"
NOTE = (
    "Highest test accuracy of the run (left axis, blue) and rounds to target (right axis, orange), mean over the "
    "trials, on the seeds that all μ of a case have; bars are standard deviations, where the paper draws the variance "
    "as a circle's radius; an arrow marks a mean in which runs that never got there count as their last round. The "
    "paper prints neither its values nor the values of μ between 0.1 and 2.5."
)


@dataclass(frozen=True)
class Panel:
    case: str
    model: str
    dataset: str
    partition: str
    target: float


PANELS = (
    Panel("cnn-mnist-dir-0.1", "cnn", "mnist", "dirichlet:0.1", 0.90),
    Panel("cnn-mnist-dir-0.5", "cnn", "mnist", "dirichlet:0.5", 0.90),
    Panel("cnn-mnist-orthogonal-5", "cnn", "mnist", "orthogonal:5", 0.90),
    Panel("mlp-fmnist-dir-0.5", "mlp", "fashion-mnist", "dirichlet:0.5", 0.75),
)


def label(mu: float) -> str:
    return f"μ = {mu}"


def lines() -> tuple[Line, ...]:
    return tuple(
        Line(
            panel.case,
            label(mu),
            paper_experiment(
                panel.dataset, panel.model, {"name": "fedtrip", "mu": mu},
                partition=panel.partition, target=panel.target,
            ),
        )
        for panel in PANELS
        for mu in MUS
    )  # fmt: skip


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Figure 7: sensitivity to μ", ["case", "μ", "highest accuracy %", "rounds to target"], notes=[NOTE],
        figures=["mu"],
    )  # fmt: skip
    findings = findings.on_common_seeds()
    with matplotlib.rc_context({**STYLE, "axes.spines.right": True}):
        figure = Figure(figsize=(8.6, 6.2), layout="constrained")
        for axes, panel in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
            shown = []
            for mu in MUS:
                runs = findings.runs(panel.case, label(mu)).values()
                rounds = rounds_of(findings, panel.case, label(mu))
                if rounds is None:
                    continue
                best = estimate([run.best_accuracy or 0.0 for run in runs])
                shown.append((mu, best, rounds))
                page.rows.append(
                    [panel.case, f"{mu}", f"{spread(best, 2, 100)} ({len(runs)})",
                     spread(rounds.estimate, bound=rounds.bound)]
                )  # fmt: skip
                page.records.append(
                    {"case": panel.case, "mu": mu, "trials": len(runs), "best_accuracy_mean": best.mean,
                     "best_accuracy_std": best.std, "target": panel.target, "rounds_mean": rounds.estimate.mean,
                     "rounds_std": rounds.estimate.std, "censored": rounds.censored}
                )  # fmt: skip
            what = f"{MODEL_TITLES[panel.model]} on {DATASET_TITLES[panel.dataset]}"
            axes.set(title=f"{what}, {PARTITION_TITLES[panel.partition]}, target {panel.target:.0%}", xlabel="μ")
            axes.set_ylabel("highest accuracy", color=ACCURACY)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            right = axes.twinx()
            right.grid(False)
            right.set_ylabel("rounds to target", color=ROUNDS)
            mus = [mu for mu, _, _ in shown]
            axes.errorbar(mus, [b.mean for _, b, _ in shown], [b.std or 0 for _, b, _ in shown], fmt="o-",
                          color=ACCURACY, capsize=2, linewidth=1.3, markersize=4)  # fmt: skip
            beside = [mu + 0.03 for mu in mus]
            right.errorbar(beside, [r.estimate.mean for *_, r in shown], [r.estimate.std or 0 for *_, r in shown],
                           fmt="s--", color=ROUNDS, capsize=2, linewidth=1.3, markersize=4,
                           lolims=[r.censored > 0 for *_, r in shown])  # fmt: skip
        save_both(figure, folder / "mu")
    page.write(folder)


ENTRY = Entry("fig7", "Figure 7: sensitivity to μ, four panels", write, lines())
