"""Table 6: rounds to target with 4 of 50 clients, the CNN; printed as multiples of FedTrip's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedtrip.comparison.tables import interval
from fedtrip.paper.bars import Pair, draw_rounds
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import ratio_fields, rounds_fields, rounds_of, shown_rounds, speedup
from fedtrip.paper.page import Page
from fedtrip.paper.published import published
from fedtrip.paper.settings import DATASET_TITLES, METHOD_TITLES, PARTITION_TITLES, short, six_methods

NOTE = (
    "Multiple: the method's rounds over FedTrip's, ours as the geometric mean paired by seed with its 95 % interval. "
    "The number of trials is in brackets: where it is smaller, they are the first ones, and a multiple is of the seeds "
    "that both have."
)


def case_name(printed: dict[str, Any]) -> str:
    return f"{short(printed['dataset'])}-{short(printed['partition'])}"


def lines() -> tuple[Line, ...]:
    return tuple(
        line
        for printed in published()["table6"]["cases"]
        for line in six_methods(
            case_name(printed), printed["dataset"], "cnn",
            partition=printed["partition"], clients=50, per_round=4, target=printed["target"],
        )
    )  # fmt: skip


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Table 6: rounds to target, 4 of 50 clients, CNN",
        ["case", "method", "paper", "our rounds", "our multiple [95 %]"],
        notes=[NOTE],
    )
    bars: dict[str, dict[str, Pair]] = {}
    for printed in published()["table6"]["cases"]:
        case = case_name(printed)
        title = f"{DATASET_TITLES[printed['dataset']]} {PARTITION_TITLES[printed['partition']]} {printed['target']:.0%}"
        for method, paper in {"fedtrip": str(printed["fedtrip"]), **printed["multiples"]}.items():
            label = METHOD_TITLES[method]
            ours, ratio = rounds_of(findings, case, label), speedup(findings, case, label, "FedTrip")
            known = method == "fedtrip" or not paper.startswith(">")
            of_paper = None if not known else float(paper) * (1 if method == "fedtrip" else printed["fedtrip"])
            page.records.append(
                {
                    "case": case,
                    "method": method,
                    "target": printed["target"],
                    "paper": paper,
                    **rounds_fields(ours),
                    **ratio_fields("multiple", ratio),
                }
            )
            page.rows.append(
                [
                    title,
                    label,
                    f"{paper} rounds" if method == "fedtrip" else f"{paper}×",
                    shown_rounds(ours),
                    interval(ratio),
                ]
            )
            if findings.labels(case):
                bars.setdefault(title, {})[label] = (ours, of_paper)
    if bars:
        draw_rounds(bars, folder / "rounds", "rounds to target")
        page.figures = ["rounds"]
    page.write(folder)


ENTRY = Entry("table6", "Table 6: rounds to target, 4 of 50 clients", write, lines())
