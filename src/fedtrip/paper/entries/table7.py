"""Table 7: test accuracy after 10 and 20 rounds with 5 and 10 local epochs, the CNN on MNIST."""

from __future__ import annotations

from pathlib import Path

from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.page import ENDED, MISSING, Page, spread
from fedtrip.paper.published import published
from fedtrip.paper.settings import METHOD_TITLES, six_methods
from fedtrip.runs.history import History
from fedtrip.statistics import estimate

NOTE = (
    "Test accuracy in per cent at that round; ours: mean ± standard deviation over the trials (their number in "
    "brackets). The paper does not name the case; it is the CNN on MNIST, Dir-0.5, by the height of its accuracies. "
    "FedTrip is with the paper's μ; what it does there with less is in *How far to push*. The authors' framework draws "
    "new samples for every further local epoch; our clients keep theirs."
)


def case_name(epochs: int) -> str:
    return f"{epochs}-epochs"


def lines() -> tuple[Line, ...]:
    rows = published()["table7"]["rows"]
    last = max(row["round"] for row in rows)
    return tuple(
        line
        for epochs in dict.fromkeys(row["local_epochs"] for row in rows)
        for line in six_methods(case_name(epochs), "mnist", "cnn", local_epochs=epochs, rounds=last)
    )


def ended_by(run: History, number: int) -> bool:
    """Whether the run ended early, in that round or before."""
    return run.ended is not None and run.records[-1].round <= number


def accuracy_at(run: History, number: int) -> float:
    """Test accuracy of a round; of a run that ended before it, its last."""
    return [accuracy for round_number, accuracy in run.curve if round_number <= number][-1]


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Table 7: accuracy with 5 and 10 local epochs, CNN on MNIST, Dir-0.5",
        ["epochs", "round", "method", "paper", "ours"],
        notes=[NOTE],
    )
    for row in published()["table7"]["rows"]:
        epochs, number = row["local_epochs"], row["round"]
        for method, paper in row["accuracy"].items():
            runs = findings.runs(case_name(epochs), METHOD_TITLES[method])
            ours = estimate([accuracy_at(run, number) for run in runs.values()]) if runs else None
            ended = sum(ended_by(run, number) for run in runs.values())
            shown = MISSING if ours is None else f"{spread(ours, 2, 100)}{ENDED * bool(ended)} ({len(runs)})"
            page.rows.append([str(epochs), str(number), METHOD_TITLES[method], paper, shown])
            page.records.append(
                {
                    "local_epochs": epochs,
                    "round": number,
                    "method": method,
                    "paper_accuracy": paper,
                    "trials": len(runs),
                    "ended_early": ended,
                    "accuracy_mean": None if ours is None else ours.mean,
                    "accuracy_std": None if ours is None else ours.std,
                }
            )
    page.write(folder)


ENTRY = Entry("table7", "Table 7: accuracy with 5 and 10 local epochs", write, lines())
