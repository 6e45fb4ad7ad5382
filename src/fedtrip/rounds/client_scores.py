"""How a model serves the clients, each on a test set of its own: the mean, and those whom it serves worst.

Clients that have a model of their own (parts that never travel, or what the method makes of the global one) are asked
twice: under the global model, and under their own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from fedtrip.engines.base import Engine
from fedtrip.experiment.federation import Federation
from fedtrip.layout import Travelling
from fedtrip.methods.interface import Memory, Method
from fedtrip.rounds.state import FederationState
from fedtrip.tasks.interface import Goal
from fedtrip.training.client import Job
from fedtrip.training.workbench import Question
from fedtrip.vectors import Vectors, copied

AT_ONCE = 32
"""Clients whose own models are held at the same time."""
WORST = 0.1
"""The share of the clients that are told apart as those whom the model serves worst."""

ClientScores = Mapping[str, float | int | None]
"""mean, worst_tenth, variance and unseen of the goal's score; clients and unseen_clients are how many."""


def client_scores(
    federation: Federation, engine: Engine, state: FederationState, model: Vectors, memories: Mapping[int, Memory]
) -> dict[str, ClientScores]:
    """The clients' scores under the global model and, if they have them, under their own.

    `memories` are those of this round's clients, which the state does not have yet.
    """
    tests = federation.held_out.own_tests
    assert tests is not None
    clients = [client for client in range(tests.clients) if tests.samples(client)]
    unseen = {k for k in clients if k not in memories and not state.memories.has_seen(k)}
    scores = _scores(federation, engine, clients, iter([(clients, [model] * len(clients))]))
    found = {"global": summarised(federation.rules.task.goal, scores, unseen)}
    if has_personal_models(federation.method, state.travelling):
        own = _own_models(federation, engine, state, model, memories, clients)
        scores = _scores(federation, engine, clients, own)
        found["personal"] = summarised(federation.rules.task.goal, scores, unseen)
    return found


def has_personal_models(method: Method, travelling: Travelling) -> bool:
    """Whether clients have models of their own: parts that never travel, or what the method makes for each."""
    makes = type(method).personal_model is not Method.personal_model
    return bool(travelling) or makes or _trains_for_it(method)


def _trains_for_it(method: Method) -> bool:
    """Whether a client's own model takes a training."""
    return type(method).personalise is not Method.personalise


def _own_models(
    federation: Federation,
    engine: Engine,
    state: FederationState,
    model: Vectors,
    memories: Mapping[int, Memory],
    clients: Sequence[int],
) -> Iterator[tuple[Sequence[int], list[Vectors]]]:
    """Each client's own model, for some clients at a time."""
    sent = state.travelling.cut(model) if state.travelling else model
    for start in range(0, len(clients), AT_ONCE):
        some = clients[start : start + AT_ONCE]
        theirs = {client: memories.get(client) or state.memories.get(client) for client in some}
        if _trains_for_it(federation.method):
            yield some, trained_models(engine, state.round + 1, sent, theirs)
        else:
            yield some, [own_model(federation.method, state.travelling, model, theirs[client]) for client in some]


def own_model(method: Method, travelling: Travelling, model: Vectors, memory: Memory) -> Vectors:
    """The model that serves a client with this memory, where it takes no training."""
    received = travelling.whole(travelling.cut(model), model, memory.personal) if travelling else model
    return method.personal_model(received, memory)


def trained_models(engine: Engine, t: int, sent: Vectors, memories: Mapping[int, Memory]) -> list[Vectors]:
    """The clients' own models, each trained for it: a second use of the client's samples, which it begins afresh."""
    jobs = [
        Job(client, t, 0, sent, replace(memory, optimizer={}, codec={}), personalises=True)
        for client, memory in memories.items()
    ]
    return [copied(outcome.upload) if outcome.is_borrowed else outcome.upload for outcome in engine.work(jobs)]


def _scores(
    federation: Federation,
    engine: Engine,
    clients: Sequence[int],
    models: Iterator[tuple[Sequence[int], list[Vectors]]],
) -> dict[int, float]:
    """The goal's score of each client on its own test set."""
    task, tests = federation.rules.task, federation.held_out.own_tests
    assert tests is not None
    found: dict[int, float] = {}
    for some, theirs in models:
        questions = [Question(model, client) for client, model in zip(some, theirs, strict=True)]
        for client, sums in zip(some, engine.score(questions), strict=True):
            found[client] = task.scores(sums, tests.samples(client))[task.goal.score]
    return {client: found[client] for client in clients}


def summarised(goal: Goal, scores: Mapping[int, float], unseen: Collection[int]) -> ClientScores:
    """Mean and variance over the clients, the mean of the worst tenth (⌈N/10⌉ clients), and of those never seen.

    A client that has no such score (the AUC of a single class) is left out, and not counted.
    """
    scores = {client: score for client, score in scores.items() if math.isfinite(score)}
    values = sorted(scores.values(), reverse=not goal.higher_is_better)  # the worst first
    mean = _mean(values)
    return {
        "mean": mean,
        "worst_tenth": _mean(values[: math.ceil(WORST * len(values))]),
        "variance": None if mean is None else _mean([(value - mean) ** 2 for value in values]),
        "unseen": _mean([score for client, score in scores.items() if client in unseen]),
        "clients": len(values),
        "unseen_clients": len(scores.keys() & set(unseen)),
    }


def _mean(values: Sequence[float]) -> float | None:
    """Their mean; None if there are none."""
    return math.fsum(values) / len(values) if values else None
