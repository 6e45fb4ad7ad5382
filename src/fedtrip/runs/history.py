"""The course of a run: its records and the questions one asks of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedtrip.arguments import checked_arguments
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.names import shown_method, title_of
from fedtrip.printable import one_line
from fedtrip.rounds.early_stopping import best_round
from fedtrip.rounds.record import RoundRecord, first_round_reaching
from fedtrip.tasks.interface import ACCURACY, Goal

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FIGURES = "fedtrip.figures"
"""By its name, because it lies above the runs."""
LAST_ROUNDS = 10
"""The final score is the mean over this many last evaluated rounds, as in the paper."""


@dataclass(frozen=True, repr=False)
class History:
    """A finished run without its model."""

    experiment: Experiment
    goal: Goal
    """the score that its target is about"""
    records: tuple[RoundRecord, ...]
    ended: str | None
    """why the run ended before its last round; None if it did not, or reached its target"""
    gflops_per_round: float | None
    """the paper's accounting: forward passes and attaching operations of one client"""
    acceleration: tuple[str, ...]
    """what was done to compute faster: the native chain, or what was changed in the private copy of the module"""
    kernels: str | None
    """what the native engine computed with, such as avx2; the bits do not depend on it"""
    stopped: str | None = field(default=None, kw_only=True)
    """why it was stopped before its last round, as it was asked to be: by its patience, or by its `on_round`"""
    remark: str | None = field(default=None, kw_only=True)
    """what one should know of the method with this model"""
    method_label: str | None = field(default=None, kw_only=True)
    """what the method's class calls itself, if it does"""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self.title)}: {one_line('; '.join(self._in_words()))}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the run in a few numbers, and its curve."""
        shown: str = import_module(f"{FIGURES}.notebook").run_html(self)
        return shown

    def plot(self) -> Figure:
        """The test score over the rounds, as a figure of matplotlib."""
        drawn: Figure = import_module(f"{FIGURES}.convergence").convergence({self.label: [self]}, self.title)
        return drawn

    @property
    def label(self) -> str:
        """What the method is called where people read it."""
        return self.method_label or shown_method(self.experiment.method.name)

    @property
    def title(self) -> str:
        """What was run."""
        return f"{self.label} on {title_of(self.experiment)}, seed {self.experiment.seed}"

    def _in_words(self) -> list[str]:
        """What came out of it, in a few words each."""
        done, target, goal = len(self.records), self.experiment.target, self.goal
        planned = f" of {self.experiment.rounds}" if done < self.experiment.rounds else ""
        words = [f"{done}{planned} round{'s' if planned or done != 1 else ''}"]
        if target is not None:
            reached = self.rounds_to(target)
            shown = f"{goal.score} {goal.shown_target(target)}"
            words.append(f"{shown} not reached" if reached is None else f"{shown} in round {reached}")
        words.append(f"final {goal.score} {'none' if self.final_score is None else goal.shown(self.final_score)}")
        return [*words, *(f"ended early: {why}" for why in (self.ended,) if why), *filter(None, [self.stopped])]

    @checked_arguments()
    def rounds_to(self, target: float) -> int | None:
        """The first round whose test score is as good as the target; None if it was never reached."""
        return first_round_reaching(self.records, target, self.goal)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(round, score of the goal on the test set) of every evaluated round."""
        scores = ((record.round, record.scores.get(self.goal.score)) for record in self.records)
        return [(number, score) for number, score in scores if score is not None]

    def frame(self) -> pandas.DataFrame:
        """The records as a data frame, one row a round."""
        import pandas

        return pandas.DataFrame([_flat(record) for record in self.records])

    @property
    def final_score(self) -> float | None:
        """Mean of the goal's score on the test set over the last ten evaluated rounds."""
        last = [score for _, score in self.curve][-LAST_ROUNDS:]
        return sum(last) / len(last) if last else None

    @property
    def model_round(self) -> int | None:
        """The round whose model is the final one: the last, or with `keep_best` the best on the validation set."""
        if self.experiment.keep_best and (best := best_round(self.records, self.goal)) is not None:
            return best
        return self.records[-1].round if self.records else None

    @property
    def final_model_score(self) -> float | None:
        """The score of the final model on the test set; None if its round was not evaluated or it is not finite."""
        kept = [record for record in self.records if record.round == self.model_round]
        return kept[-1].scores.get(self.goal.score) if kept else None

    @property
    def client_scores(self) -> Mapping[str, Mapping[str, float | int | None]]:
        """How the models served the clients in the last round in which they were asked; empty if they never were."""
        return next((record.client_scores for record in reversed(self.records) if record.client_scores), {})

    @property
    def best_score(self) -> float | None:
        """The best score of any round."""
        return self.goal.best(score for _, score in self.curve)

    @property
    def final_accuracy(self) -> float | None:
        """`final_score` where the goal is the accuracy; None for other goals."""
        return self.final_score if self.goal == ACCURACY else None

    @property
    def best_accuracy(self) -> float | None:
        """`best_score` where the goal is the accuracy; None for other goals."""
        return self.best_score if self.goal == ACCURACY else None

    @property
    def client_megabytes(self) -> float:
        """What a client keeps between its rounds, the most of any."""
        return max((r.client_memory for r in self.records), default=0) / 1e6

    def costs(self, rounds: int | None) -> dict[str, float | None]:
        """What the first so many rounds cost: paper's GFLOPs (one client), our GMACs and megabytes (all clients)."""
        if rounds is None:
            return {"gflops": None, "gmacs": None, "megabytes": None}
        counted = [r for r in self.records if r.round <= rounds]
        gflops = None if self.gflops_per_round is None else self.gflops_per_round * len(counted)
        return {
            "gflops": gflops,
            "gmacs": sum(r.macs for r in counted) / 1e9,
            "megabytes": sum(r.bytes_down + r.bytes_up for r in counted) / 1e6,
        }


def _flat(record: RoundRecord) -> dict[str, Any]:
    """A record with each score in a column of its own."""
    columns = record.as_json()
    scores = columns.pop("scores")
    validation = {f"validation_{name}": score for name, score in columns.pop("validation").items()}
    clients = {
        f"clients_{whose}_{name}": score
        for whose, of_clients in columns.pop("client_scores").items()
        for name, score in of_clients.items()
    }
    return {"round": columns.pop("round"), **scores, **validation, **clients, **columns}
