"""What a schedule is: the factor of the local learning rate in round t."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.registry import Rule


@dataclass(frozen=True)
class Schedule(Rule):
    """Base of the schedules."""

    def __call__(self, t: int, rounds: int) -> float:
        """The factor in round t, from 1, of a run of so many rounds."""
        raise NotImplementedError
