"""How long runs will take: from the seconds of finished runs like them, or from a step that is timed now."""

from __future__ import annotations

import time
from collections.abc import Iterable
from statistics import median

import torch

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.experiment.description import Experiment
from fedtrip.models import build_model
from fedtrip.one_thread import one_thread
from fedtrip.paper.archive import Archive
from fedtrip.training.costs import pass_cost

PROBE_BATCH = 50
MOON_PASSES = 1.7
"""MOON's own forward passes make its training about so much longer; every other method costs about the same."""


def expected_seconds(experiments: Iterable[Experiment], archive: Archive) -> list[float]:
    """Seconds of one process for each experiment, run to its last round."""
    known: dict[tuple[object, ...], list[float]] = {}
    for run in archive:
        if run.records:
            known.setdefault(_kind(run.experiment), []).append(sum(r.seconds for r in run.records) / len(run.records))
    probes: dict[tuple[object, ...], float] = {}
    seconds = []
    for experiment in experiments:
        kind = _kind(experiment)
        if kind in known:
            a_round = median(known[kind])
        else:
            if kind not in probes:
                probes[kind] = _probe(experiment)
            a_round = probes[kind]
        seconds.append(a_round * experiment.rounds)
    return seconds


def _kind(experiment: Experiment) -> tuple[object, ...]:
    return (experiment.model, experiment.dataset, experiment.local_epochs, experiment.method.name == "moon")


@one_thread()
def _probe(experiment: Experiment) -> float:
    """Seconds of a round: a forward and backward pass timed with plain torch, by the samples and the test set."""
    known = KNOWN_SETS[experiment.dataset]
    module = build_model(experiment.model, known.shape, known.classes, seed=0)
    x = torch.randn(PROBE_BATCH, *known.shape)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        module(x).sum().backward()
        times.append(time.perf_counter() - began)
    cost = pass_cost(module, known.shape)
    a_sample = min(times) / PROBE_BATCH
    samples = experiment.samples_per_client or known.samples_per_client
    trained = (experiment.per_round or 4) * samples * experiment.local_epochs
    factor = MOON_PASSES if experiment.method.name == "moon" else 1.0
    return a_sample * (trained * factor + known.test * cost.forward / cost.training)
