"""What happened in a round: one record, a line of `metrics.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedtrip.experiment.description import LARGEST
from fedtrip.tasks.interface import Goal

ATTACK_SUCCESS = "attack_success"
"""The name of the score that says how far an attack got, beside the task's."""


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round; a line of `metrics.jsonl`."""

    round: int
    scores: Mapping[str, float | None]
    """the task's scores on the whole test set, by name, and the success of an attack that measures it; None where one
    is not finite, empty if it was not evaluated"""
    clients: tuple[int, ...]
    """the chosen clients"""
    bytes_down: int = 0
    bytes_up: int = 0
    macs: int = 0
    """multiply-adds of all clients and of the server together"""
    seconds: float = 0.0
    refused: Mapping[int, str] = field(default_factory=dict)
    """clients whose upload was left out, and why"""
    client_memory: int = 0
    """bytes that a client of this round keeps until its next, the most of any"""
    dropped: tuple[int, ...] = ()
    """chosen clients that never answered"""
    unchanged: bool = False
    """whether nobody sent anything usable, so that the model is the one of the round before"""
    wire_down: int = 0
    """serialised size of what was sent down; 0 on an engine that serialises nothing"""
    wire_up: int = 0
    """serialised size of what was sent up"""
    validation: Mapping[str, float | None] = field(default_factory=dict)
    """the task's scores on the validation set, where there is one and the round was evaluated"""
    client_scores: Mapping[str, Mapping[str, float | int | None]] = field(default_factory=dict)
    """how the `global` model, and where clients have their own the `personal` ones, serve the clients: see
    `fedtrip.rounds.client_scores`"""
    epsilon: float | None = None
    """ε that all rounds so far cost together, where uploads are combined with differential privacy"""

    @property
    def accuracy(self) -> float | None:
        """Test accuracy, where the task has one and the round was evaluated."""
        return self.scores.get("accuracy")

    @property
    def loss(self) -> float | None:
        """Mean loss on the test set; None where it is not finite or the round was not evaluated."""
        return self.scores.get("loss")

    def as_json(self) -> dict[str, Any]:
        """The record as plain data, every score beside the other columns."""
        return dict(vars(self))


def finite_scores(scores: Mapping[str, float]) -> dict[str, float | None]:
    """The scores as a record keeps them: JSON has no infinity."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def record_from_json(fields: Mapping[str, Any]) -> RoundRecord:
    """A record from its JSON form, in which tuples are lists and the keys of a table are text.

    Raises `ValueError`, `TypeError`, `KeyError` or `AttributeError` if it is not one.
    """
    plain = {
        "scores": dict(fields["scores"].items()),
        "clients": tuple(fields["clients"]),
        "dropped": tuple(fields.get("dropped", ())),
        "refused": {int(client): str(reason) for client, reason in fields["refused"].items()},
        "validation": dict(fields.get("validation", {}).items()),
        "client_scores": {str(whose): dict(of.items()) for whose, of in fields.get("client_scores", {}).items()},
    }
    record = RoundRecord(**{**fields, **plain})
    counts = [getattr(record, name) for name in _COUNTS]
    if not all(type(n) is int and 0 <= n <= LARGEST for n in (*counts, *record.clients, *record.dropped)):
        raise TypeError("a count is no count")
    tables = (record.scores, record.validation, *record.client_scores.values())
    measured = [number for table in tables for number in table.values() if number is not None]
    spent = () if record.epsilon is None else (record.epsilon,)
    if not all(type(number) in (int, float) for number in (*measured, *spent, record.seconds)):
        raise TypeError("a number is none")
    if type(record.unchanged) is not bool:
        raise TypeError("it is neither true nor false")
    return record


_COUNTS = ("round", "bytes_down", "bytes_up", "macs", "client_memory", "wire_down", "wire_up")


def first_round_reaching(records: Sequence[RoundRecord], target: float, goal: Goal) -> int | None:
    """The first round whose score is as good as the target; None if there is none."""
    scores = ((record.round, record.scores.get(goal.score)) for record in records)
    return next((number for number, score in scores if score is not None and goal.reaches(score, target)), None)
