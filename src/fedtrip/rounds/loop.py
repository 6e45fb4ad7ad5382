"""The round loop, written once: select → exchange → combine → server step → score → record."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import replace

from fedtrip.engines.base import Engine, added
from fedtrip.experiment.federation import Federation
from fedtrip.interruption import undisturbed
from fedtrip.methods.interface import Server
from fedtrip.randomness import stream
from fedtrip.rounds.client_scores import ClientScores, client_scores
from fedtrip.rounds.early_stopping import BestSoFar
from fedtrip.rounds.record import RoundRecord, first_round_reaching
from fedtrip.rounds.state import FederationState, RoundDetails, RoundDone, RunPaused, TooFewClients
from fedtrip.rounds.turn import Evaluation, Turn
from fedtrip.training.workbench import Question

ATTEMPTS = 3
"""How often a round is tried that too few clients answer."""


def rounds(
    federation: Federation,
    engine: Engine,
    state: FederationState,
    before: Sequence[RoundRecord] = (),
    min_clients: int = 0,
    until: int | None = None,
) -> Generator[tuple[RoundRecord, RoundDetails]]:
    """Run the remaining rounds, advancing `state`; one record for each. `before` are those of a run that goes on.

    From the step to the next state until the next round is asked for, no signal interrupts: a round that counts is
    recorded. Raises `RunEnded`, or `TooFewClients` if a round has fewer than `min_clients` usable uploads three times,
    with the state as it was before that round. Raises `RunPaused` after round `until`, if the run is not over then.
    """
    experiment, goal = federation.experiment, federation.rules.task.goal
    target = experiment.target if experiment.stop_at_target else None
    reached = target is not None and first_round_reaching(before, target, goal) is not None
    best = BestSoFar(goal, experiment.patience)
    for record in before:
        best.take(record)
    while state.round < experiment.rounds and not reached and not best.is_exhausted:
        if until is not None and state.round >= until:
            raise RunPaused
        done = _attempted(federation, engine, state, min_clients)
        with undisturbed():
            state.advance(done)
            if best.take(done.record) and experiment.keep_best:
                state.keep_model_as_best()
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
    return turn.done(server, _evaluation(federation, engine, state, server, turn))


def selected(federation: Federation, t: int) -> tuple[int, ...]:
    """The clients of round t, a function of seed and round alone."""
    experiment = federation.experiment
    rng = stream(experiment.seed, "selection", t)
    clients = experiment.clients - experiment.unseen_clients
    return federation.rules.select(rng, t, clients, experiment.per_round, federation.partition.samples)


def _evaluation(
    federation: Federation, engine: Engine, state: FederationState, server: Server, turn: Turn
) -> Evaluation:
    """How good the global model is, in the rounds in which it is evaluated."""
    experiment, task, t = federation.experiment, federation.rules.task, server.round
    is_last = t == experiment.rounds
    scores: dict[str, float] = {}
    validation: dict[str, float] = {}
    clients: dict[str, ClientScores] = {}
    if t % experiment.eval_every == 0 or is_last:
        (sums,) = engine.score([Question(server.model)])
        scores = task.scores(sums, len(federation.dataset.y_test))
        validation = _validation(federation, engine, server)
    if experiment.eval_clients is not None and (t % experiment.eval_clients == 0 or is_last):
        clients = client_scores(federation, engine, state, server.model, turn.memories)
    return Evaluation(scores, validation, clients)


def _validation(federation: Federation, engine: Engine, server: Server) -> dict[str, float]:
    """The task's scores on the validation set; on those of all clients together, where it is theirs."""
    task, held_out = federation.rules.task, federation.held_out
    if held_out.validation is not None:
        (sums,) = engine.score([Question(server.model, part="validation")])
        return task.scores(sums, len(held_out.validation))
    shares = held_out.client_validation
    if shares is None:
        return {}
    clients = [client for client in range(shares.clients) if shares.samples(client)]
    each = engine.score([Question(server.model, client, "validation") for client in clients])
    return task.scores(added(each), sum(map(shares.samples, clients)))
