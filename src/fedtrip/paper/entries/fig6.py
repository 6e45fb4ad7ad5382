"""Figure 6: box plots of the final accuracy, CNN and MLP on FMNIST, four heterogeneities."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.figures.palette import COLOURS
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import final_accuracy, shown_final
from fedtrip.paper.page import Page
from fedtrip.paper.settings import MODEL_TITLES, PARTITION_TITLES, short, six_methods
from fedtrip.statistics import estimate

MODELS = ("cnn", "mlp")
NOTE = (
    "Final accuracy: mean test accuracy of the last 10 rounds. Boxes: quartiles over the trials with their median; "
    "whiskers to the farthest trial within 1.5 box lengths; dots: single trials. The table: mean ± standard deviation "
    "(trials), on the seeds that all methods of a case have."
)


def case_name(model: str, partition: str) -> str:
    return f"{model}-{short(partition)}"


def lines() -> tuple[Line, ...]:
    return tuple(
        line
        for model in MODELS
        for partition in PARTITION_TITLES
        for line in six_methods(case_name(model, partition), "fashion-mnist", model, partition=partition)
    )


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Figure 6: final accuracy on FMNIST", ["case", "method", "final accuracy %"], notes=[NOTE], figures=["boxes"]
    )
    findings = findings.on_common_seeds()
    labels = list(dict.fromkeys(line.label for line in findings.lines))
    width = 0.8 / len(labels)
    with matplotlib.rc_context({**STYLE, "axes.grid.axis": "y"}):
        figure = Figure(figsize=(9.0, 6.4), layout="constrained")
        for panel, model in zip(figure.subplots(len(MODELS), 1), MODELS, strict=True):
            for place, partition in enumerate(PARTITION_TITLES):
                case = case_name(model, partition)
                for number, label in enumerate(labels):
                    runs = findings.runs(case, label).values()
                    values = final_accuracy(runs).values if runs else ()
                    if not values:
                        continue
                    x = place + (number - (len(labels) - 1) / 2) * width
                    colour = COLOURS[number]
                    panel.boxplot(
                        [values], positions=[x], widths=width * 0.8, patch_artist=True, showfliers=False,
                        boxprops={"facecolor": colour + "55", "edgecolor": colour}, medianprops={"color": colour},
                        whiskerprops={"color": colour}, capprops={"color": colour}, manage_ticks=False,
                    )  # fmt: skip
                    panel.plot(np.full(len(values), x), values, ".", color=colour, markersize=3.5)
                    final = estimate(values)
                    page.rows.append([case, label, f"{shown_final(runs)} ({len(values)})"])
                    page.records.append({"case": case, "method": label, "trials": len(values), "mean": final.mean,
                                         "std": final.std, "values": [round(v, 6) for v in values]})  # fmt: skip
            panel.set_xticks(range(len(PARTITION_TITLES)), list(PARTITION_TITLES.values()))
            panel.tick_params(axis="x", length=0)
            panel.set(title=f"{MODEL_TITLES[model]} on FMNIST", ylabel="final accuracy", xlim=(-0.5, 3.5))
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        patches = [Patch(facecolor=COLOURS[n] + "55", edgecolor=COLOURS[n], label=x) for n, x in enumerate(labels)]
        figure.legend(handles=patches, loc="outside lower center", ncols=len(labels))
        save_both(figure, folder / "boxes")
    page.write(folder)


ENTRY = Entry("fig6", "Figure 6: final accuracy, CNN and MLP on FMNIST × 4 heterogeneities", write, lines())
