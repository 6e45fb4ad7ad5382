"""The round loop, written once: select → exchange → combine → server step → score → record."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import replace

from fedtrip.engines.base import Engine
from fedtrip.experiment.federation import Federation
from fedtrip.interruption import undisturbed
from fedtrip.methods.interface import Server
from fedtrip.randomness import stream
from fedtrip.rounds.record import RoundRecord, first_round_reaching
from fedtrip.rounds.state import FederationState, RoundDetails, RoundDone, TooFewClients
from fedtrip.rounds.turn import Turn
from fedtrip.training.workbench import Question

ATTEMPTS = 3
"""How often a round is tried that too few clients answer."""


def rounds(
    federation: Federation,
    engine: Engine,
    state: FederationState,
    before: Sequence[RoundRecord] = (),
    min_clients: int = 0,
) -> Generator[tuple[RoundRecord, RoundDetails]]:
    """Run the remaining rounds, advancing `state`; one record for each. `before` are those of a run that goes on.

    From the step to the next state until the next round is asked for, no signal interrupts: a round that counts is
    recorded. Raises `RunEnded`, or `TooFewClients` if a round has fewer than `min_clients` usable uploads three times,
    with the state as it was before that round.
    """
    experiment, goal = federation.experiment, federation.rules.task.goal
    target = experiment.target if experiment.stop_at_target else None
    reached = target is not None and first_round_reaching(before, target, goal) is not None
    while state.round < experiment.rounds and not reached:
        done = _attempted(federation, engine, state, min_clients)
        with undisturbed():
            state.advance(done)
            yield done.record, done.details
        reached = target is not None and first_round_reaching([done.record], target, goal) is not None


def _attempted(federation: Federation, engine: Engine, state: FederationState, min_clients: int) -> RoundDone:
    """One communication round, tried again if too few clients answer."""
    for attempt in range(1, ATTEMPTS):
        try:
            return one_round(federation, engine, state, min_clients)
        except TooFewClients as problem:
            logging.getLogger(__name__).warning("%s; attempt %d of %d failed", problem, attempt, ATTEMPTS)
    return one_round(federation, engine, state, min_clients)


def one_round(federation: Federation, engine: Engine, state: FederationState, min_clients: int = 0) -> RoundDone:
    """What comes of one communication round; the state stays as it is."""
    t = state.round + 1
    chosen = selected(federation, t)
    turn = Turn(federation, engine, state, chosen, min_clients)
    server = replace(state.server, round=t, lr=federation.lr(t))
    for exchange in range(federation.method.exchanges):
        server = replace(server, exchange=exchange)
        tally = turn.exchange(server)
        if not tally.count:  # only simulated faults: the federation waits for the next round
            server = replace(state.server, round=t)
            break
        server = turn.server_step(server, tally)
    scores = _scores(federation, engine, server, t)
    return turn.done(server, scores)


def selected(federation: Federation, t: int) -> tuple[int, ...]:
    """The clients of round t, a function of seed and round alone."""
    experiment = federation.experiment
    rng = stream(experiment.seed, "selection", t)
    return federation.rules.select(rng, t, experiment.clients, experiment.per_round, federation.partition.samples)


def _scores(federation: Federation, engine: Engine, server: Server, t: int) -> dict[str, float]:
    """The task's scores of the global model on the whole test set, in the rounds in which it is evaluated."""
    experiment = federation.experiment
    if t % experiment.eval_every and t != experiment.rounds:
        return {}
    (sums,) = engine.score([Question(server.model)])
    return federation.rules.task.scores(sums, len(federation.dataset.y_test))
