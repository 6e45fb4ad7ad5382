"""Table 5: GFLOPs to target. It follows from the rounds of Table 4, so it needs the same runs."""

from __future__ import annotations

from pathlib import Path

from fedtrip.paper.entries.rounds_cases import case_name, case_title, table4_lines
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.measures import rounds_of
from fedtrip.paper.page import MISSING, Page, spread
from fedtrip.paper.published import published
from fedtrip.paper.settings import METHOD_TITLES
from fedtrip.paper.tables import gflops_of_a_round
from fedtrip.statistics import estimate

NOTE = (
    "GFLOPs of one client to target, by the paper's accounting: rounds × (n·FP + attaching operations), FP with the "
    "counts that Table 5 itself was computed with. The paper's column is what it prints, slips included "
    "(`fedtrip reproduce table5 --published` lists them)."
)


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Table 5: GFLOPs to target, 4 of 10 clients, Dir-0.5", ["case", "method", "paper", "ours"], notes=[NOTE]
    )
    targets = {(case["model"], case["dataset"]): case["target"] for case in published()["table4"]["cases"]}
    for printed in published()["table5"]["cases"]:
        model, dataset = printed["model"], printed["dataset"]
        case = case_name(model, dataset)
        for method, paper in printed["gflops"].items():
            label, a_round = METHOD_TITLES[method], gflops_of_a_round(method, model, dataset)
            rounds = rounds_of(findings, case, label)
            ours = None if rounds is None else estimate([r * a_round for r in rounds.estimate.values])
            digits = 3 if model != "alexnet" else 0
            shown = MISSING
            if ours is not None and rounds is not None:
                shown = f"{spread(ours, digits, bound=rounds.bound)} ({rounds.trials})"
            page.rows.append([case_title(model, dataset, targets[model, dataset]), label, paper, shown])
            page.records.append(
                {
                    "case": case,
                    "method": method,
                    "paper_gflops": paper,
                    "trials": 0 if rounds is None else rounds.trials,
                    "gflops_per_round": a_round,
                    "gflops_mean": None if ours is None else ours.mean,
                    "gflops_std": None if ours is None else ours.std,
                    "censored": None if rounds is None else rounds.censored,
                }
            )
    page.write(folder)


ENTRY = Entry("table5", "Table 5: GFLOPs to target, from the runs of Table 4", write, table4_lines())
