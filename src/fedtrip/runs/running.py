"""A prepared federation is run: rounds, records, checkpoints, and the result."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial

from fedtrip.engines import make_engine, worker_count
from fedtrip.engines.base import Engine
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation
from fedtrip.interruption import undisturbed
from fedtrip.one_thread import callback, whole_run
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.ram import read_size
from fedtrip.rounds.record import RoundRecord
from fedtrip.rounds.state import FederationState, RoundDetails, RunEnded, initial_state
from fedtrip.runs.folder import (
    Destination,
)
from fedtrip.runs.result import Result
from fedtrip.runs.room import warn_if_no_room
from fedtrip.runs.stored import load_result
from fedtrip.runs.writer import RunWriter
from fedtrip.training.costs import PassCost, paper_gflops_per_round, symbols_of
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.vectors import state_sha256

OnRound = Callable[[RoundRecord], None]
OpenEngine = Callable[[Federation, PreparedModel], AbstractContextManager[Engine]]


@whole_run()
def run_federation(
    federation: Federation,
    *,
    destination: Destination | None = None,
    client_memory: int | str | None = None,
    workers: int | None = None,
    on_round: OnRound | None = None,
    open_engine: OpenEngine | None = None,
    min_clients: int = 0,
) -> Result:
    """Run a prepared federation, on this machine's processes or on the engine that `open_engine` opens.

    A round with fewer than `min_clients` usable uploads is tried again, then `TooFewClients` is raised.
    """
    worker_count(workers)  # checked before anything is written
    opened = open_engine or partial(make_engine, workers=workers)
    kept = None if client_memory is None else read_size(client_memory, "client_memory")
    if destination is None:
        return _run(federation, ClientStore(budget=kept), None, opened, on_round, min_clients)
    writer = RunWriter(
        destination,
        federation.experiment,
        origin={"data": federation.dataset.sha256(), "model": state_sha256(federation.module.state_dict())},
        client_memory=kept,
    )
    with closing(writer):
        if writer.is_finished:
            return replace(load_result(writer.out), build=partial(copy.deepcopy, federation.module))
        with _saved_if_left(writer):
            return _run(federation, writer.checkpoint.store, writer, opened, on_round, min_clients)


def _run(
    federation: Federation,
    memories: ClientStore,
    writer: RunWriter | None,
    open_engine: OpenEngine,
    on_round: OnRound | None,
    min_clients: int,
) -> Result:
    experiment = federation.experiment
    prepared = PreparedModel.of(federation)
    flat, state = prepared.flat, initial_state(federation, memories, prepared)
    records = list(writer.continue_from(state)) if writer is not None else []
    first = len(records) + 1
    ended = None
    try:
        with (
            open_engine(federation, prepared) as engine,
            closing(rounds(federation, engine, state, records, min_clients)) as done,
        ):
            for record, details in done:
                records.append(record)
                if writer is not None:
                    if record.round in experiment.snapshot:
                        _keep_snapshot(writer, flat, state, details)
                    writer.record(record, state)
                if record.round == first:
                    warn_if_no_room(experiment, state, record.client_memory, writer.out if writer is not None else None)
                if on_round is not None:
                    with callback():
                        on_round(record)
    except RunEnded as problem:
        ended = str(problem)
        records.append(problem.record)
        if writer is not None:
            writer.note(problem.record)
        if on_round is not None:
            with callback():
                on_round(problem.record)
    finally:
        state.memories.close()
    result = Result(
        experiment=experiment,
        goal=federation.rules.task.goal,
        records=tuple(records),
        state=flat.state_dict(state.server.model),
        ended=ended,
        gflops_per_round=_gflops_per_round(federation, prepared.cost),
        acceleration=prepared.changes,
        kernels=prepared.kernels,
        build=partial(copy.deepcopy, federation.module),
    )
    if writer is not None:
        with undisturbed():
            writer.finish(result.state, result.summary())
    return result


@contextmanager
def _saved_if_left(writer: RunWriter) -> Iterator[None]:
    """Whatever ends a run early, its checkpoint has all finished rounds; if it can be written, which is told if not."""
    try:
        yield
    except BaseException as reason:
        try:
            with undisturbed():
                writer.save()
        except UserError as problem:
            if not isinstance(reason, UserError):  # then it is probably the same, and told already
                logging.getLogger(__name__).warning("%s", problem)
        raise


def _keep_snapshot(writer: RunWriter, flat: FlatModel, state: FederationState, details: RoundDetails) -> None:
    writer.snapshot(state.round, "global", flat.state_dict(state.server.model))
    for upload in details.uploads:
        writer.snapshot(state.round, f"client-{upload.client}", flat.state_dict(upload.vectors))


def _gflops_per_round(federation: Federation, cost: PassCost) -> float | None:
    experiment, dataset = federation.experiment, federation.dataset
    if not len(dataset.y_train):
        return None  # the clients' samples are theirs: nobody here knows how many
    symbols = symbols_of(
        samples=experiment.samples_per_client or round(len(dataset.y_train) / experiment.clients),
        epochs=experiment.local_epochs,
        batch_size=experiment.batch_size,
        parameters=sum(p.numel() for p in federation.module.parameters()),
        forward=cost.forward,
        backward=cost.training - cost.forward,
    )
    return paper_gflops_per_round(federation.method, symbols, experiment.local_epochs)
