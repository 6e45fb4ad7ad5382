"""Courses of runs made up from accuracies, and the experiments they would belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fedtrip import Experiment, RoundRecord
from fedtrip.runs.history import History
from fedtrip.tasks.interface import ACCURACY

MakeRuns = Callable[..., list[History]]


@pytest.fixture
def make_runs() -> MakeRuns:
    """Runs of a method, one a seed, each reaching 90 % in a given round (None: never) of its twenty."""

    def make(method: str, reached: Sequence[int | None], ended: str | None = None, **fields: object) -> list[History]:
        runs = []
        for seed, round_reached in enumerate(reached):
            settings = {"momentum": 0.9, "partition": "dirichlet:0.5", "target": 0.9, "rounds": 20, **fields}
            experiment = Experiment(method=method, seed=seed, **settings)
            records = tuple(
                RoundRecord(
                    t,
                    {"accuracy": accuracy, "loss": 1.0},
                    (0, 1),
                    bytes_down=1_000_000,
                    bytes_up=500_000,
                    macs=10**9,
                    seconds=0.1,
                )
                for t, accuracy in enumerate(_accuracies(round_reached), 1)
            )
            runs.append(History(experiment, ACCURACY, records, ended, 0.5, (), None))
        return runs

    return make


def _accuracies(reached: int | None) -> list[float]:
    return [0.95 if reached is not None and t >= reached else t / 40 for t in range(1, 21)]
