"""Table 4: communication rounds to the target accuracy, 4 of 10 clients, Dir-0.5."""

from __future__ import annotations

from pathlib import Path

from fedtrip.comparison.tables import interval
from fedtrip.paper.bars import Pair, draw_rounds
from fedtrip.paper.entries.rounds_cases import case_name, case_title, table4_lines
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.measures import ratio_fields, rounds_fields, rounds_of, shown_rounds, speedup
from fedtrip.paper.page import MISSING, Page
from fedtrip.paper.published import published
from fedtrip.paper.settings import METHOD_TITLES

NOTES = [
    "Ours: mean ± standard deviation over the trials (their number in brackets). Speed-up: FedAvg's rounds "
    "over the method's, geometric mean paired by seed with its 95 % interval; beside it the paper's ratio of means.",
    "EMNIST47 is made of real EMNIST images in the classes of the *balanced* split, but it is not that split.",
]


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Table 4: rounds to target, 4 of 10 clients, Dir-0.5",
        ["case", "method", "paper", "ours", "paper's speed-up", "our speed-up [95 %]"],
        notes=NOTES,
    )
    bars: dict[str, dict[str, Pair]] = {}
    for printed in published()["table4"]["cases"]:
        case = case_name(printed["model"], printed["dataset"])
        for method, paper in printed["rounds"].items():
            label = METHOD_TITLES[method]
            ours, ratio = rounds_of(findings, case, label), speedup(findings, case, "FedAvg", label)
            paper_ratio = printed["rounds"]["fedavg"] / paper
            page.records.append(
                {
                    "case": case,
                    "method": method,
                    "target": printed["target"],
                    "paper_rounds": paper,
                    **rounds_fields(ours),
                    "paper_speedup": paper_ratio,
                    **ratio_fields("speedup", ratio),
                }
            )
            title = case_title(printed["model"], printed["dataset"], printed["target"])
            of_paper = MISSING if method == "fedavg" else f"{paper_ratio:.2f}×"
            page.rows.append([title, label, str(paper), shown_rounds(ours), of_paper, interval(ratio)])
            if findings.labels(case):
                bars.setdefault(title, {})[label] = (ours, paper)
    if bars:
        draw_rounds(bars, folder / "rounds", "rounds to target")
        page.figures = ["rounds"]
    page.write(folder)


ENTRY = Entry("table4", "Table 4: rounds to target, 6 methods × 6 cases", write, table4_lines())
