"""The trials of a variant on common rounds: what a band of curves is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtrip.runs.history import History


def common_rounds(runs: Sequence[History]) -> tuple[np.ndarray, np.ndarray]:
    """Rounds and a trials × rounds array of scores; a run that stopped earlier keeps its last value."""
    rounds = sorted({number for run in runs for number, _ in run.curve}) or [0]
    table = np.full((len(runs), len(rounds)), np.nan)
    for row, run in enumerate(runs):
        curve = dict(run.curve)
        last = np.nan
        for column, number in enumerate(rounds):
            last = curve.get(number, last)
            table[row, column] = last
    return np.array(rounds), table


def mean_traffic(runs: Sequence[History]) -> dict[int, float]:
    """Round → megabytes up to it, all clients: each round's mean over the trials that had it, added up.

    A mean of the sums would fall where a trial with more traffic ends before the others.
    """
    of_round: dict[int, list[int]] = {}
    for run in runs:
        for record in run.records:
            of_round.setdefault(record.round, []).append(record.bytes_down + record.bytes_up)
    total, found = 0.0, {0: 0.0}
    for number, sizes in sorted(of_round.items()):
        total += sum(sizes) / len(sizes) / 1e6
        found[number] = total
    return found
