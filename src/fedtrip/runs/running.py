"""A prepared federation is run: rounds, records, checkpoints, and the result."""

from __future__ import annotations

import copy
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial

from fedtrip.engines import make_engine, worker_count
from fedtrip.engines.base import Engine
from fedtrip.errors import StopRun, UserError
from fedtrip.experiment.federation import Federation
from fedtrip.interruption import undisturbed
from fedtrip.methods.interface import own_label
from fedtrip.one_thread import whole_run
from fedtrip.partitions.interface import sizes_of
from fedtrip.rounds.early_stopping import BestSoFar
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.ram import read_size
from fedtrip.rounds.record import RoundRecord
from fedtrip.rounds.state import FederationState, RoundDetails, RunEnded, initial_state
from fedtrip.runs.folder import (
    Destination,
)
from fedtrip.runs.on_round import ModelView, OnRound, tell
from fedtrip.runs.result import Result
from fedtrip.runs.room import expected_memory, tell_room
from fedtrip.runs.stored import load_result
from fedtrip.runs.writer import RunWriter
from fedtrip.training.costs import PassCost, paper_gflops_per_round, symbols_of
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.trained_state import frozen_names, without_frozen
from fedtrip.vectors import state_sha256

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
    until: int | None = None,
) -> Result:
    """Run a prepared federation, on this machine's processes or on the engine that `open_engine` opens.

    A round with fewer than `min_clients` usable uploads is tried again, then `TooFewClients` is raised. After round
    `until` the run is left, if it is not over then: `RunPaused` is raised, and the same call with a later `until`, or
    without, goes on from the checkpoint at the `destination`.
    """
    worker_count(workers)  # checked before anything is written
    opened = open_engine or partial(make_engine, workers=workers)
    kept = None if client_memory is None else read_size(client_memory, "client_memory")
    if destination is None:
        return _run(federation, ClientStore(budget=kept), None, opened, on_round, min_clients, until)
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
            return _run(federation, writer.checkpoint.store, writer, opened, on_round, min_clients, until)


def _run(
    federation: Federation,
    memories: ClientStore,
    writer: RunWriter | None,
    open_engine: OpenEngine,
    on_round: OnRound | None,
    min_clients: int,
    until: int | None,
) -> Result:
    experiment = federation.experiment
    prepared = PreparedModel.of(federation)
    flat, state = prepared.flat, initial_state(federation, memories, prepared)
    records = list(writer.continue_from(state)) if writer is not None else []
    first = len(records) + 1
    folder, expected = writer.out if writer is not None else None, expected_memory(federation, state)
    if expected is not None:
        tell_room(experiment, state, expected, folder)
    if (remark := federation.method.remark(flat.layout)) is not None:
        logging.getLogger(__name__).warning("%s", remark)
    ended = stopped = None
    try:
        with (
            open_engine(federation, prepared) as engine,
            closing(rounds(federation, engine, state, records, min_clients, until)) as done,
        ):
            for record, details in done:
                records.append(record)
                if writer is not None:
                    if record.round in experiment.snapshot:
                        _keep_snapshot(writer, flat, state, details)
                    writer.record(record, state)
                if record.round == first and record.client_memory > (expected or 0):
                    tell_room(experiment, state, record.client_memory, folder)
                if on_round is not None:
                    tell(on_round, record, ModelView(flat, state.server.model, federation.module))
    except StopRun as reason:
        stopped = f"by its on_round after round {state.round}{f': {reason}' if str(reason) else ''}"
    except RunEnded as problem:
        ended = str(problem)
        records.append(problem.record)
        if writer is not None:
            writer.note(problem.record)
        if on_round is not None:
            with suppress(StopRun):  # it has ended
                tell(on_round, problem.record, ModelView(flat, state.server.model, federation.module))
    finally:
        state.memories.close()
    if ended is None and stopped is None:
        stopped = _out_of_patience(federation, records)
    result = Result(
        experiment=experiment,
        goal=federation.rules.task.goal,
        records=tuple(records),
        state=flat.state_dict(state.best_model() if experiment.keep_best else state.server.model),
        ended=ended,
        stopped=stopped,
        gflops_per_round=_gflops_per_round(federation, prepared.cost),
        acceleration=prepared.changes,
        kernels=prepared.kernels,
        build=partial(copy.deepcopy, federation.module),
        frozen=frozen_names(federation.module),
        remark=remark,
        method_label=own_label(type(federation.method)),
    )
    if writer is not None:
        with undisturbed():
            writer.finish(result.to_store(), result.summary())
    return result


def _out_of_patience(federation: Federation, records: Sequence[RoundRecord]) -> str | None:
    """Why the run ended before its last round, if that was for want of a better score."""
    experiment, best = federation.experiment, BestSoFar(federation.rules.task.goal, federation.experiment.patience)
    for record in records:
        best.take(record)
    if not best.is_exhausted or len(records) == experiment.rounds:
        return None
    return f"by its patience after round {len(records)}: the best validation score was that of round {best.round}"


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
    frozen = frozen_names(flat.module)
    models = {"global": state.server.model, **{f"client-{upload.client}": upload.vectors for upload in details.uploads}}
    for name, model in models.items():
        writer.snapshot(state.round, name, without_frozen(flat.state_dict(model), frozen))


def _gflops_per_round(federation: Federation, cost: PassCost) -> float | None:
    """What a client computes in a round, as the paper counts it: the mean of all clients."""
    experiment, dataset = federation.experiment, federation.dataset
    if not len(dataset.y_train):
        return None  # the clients' samples are theirs: nobody here knows how many
    parameters = sum(p.numel() for p in federation.module.parameters() if p.requires_grad)

    def of_client(samples: int) -> float | None:
        symbols = symbols_of(
            samples=samples,
            epochs=experiment.local_epochs,
            batch_size=experiment.batch_size,
            parameters=parameters,
            forward=cost.forward,
            backward=cost.training - cost.forward,
            C=cost.C,
            r=cost.r,
            h=cost.h,
        )
        return paper_gflops_per_round(federation.method, symbols, experiment.local_epochs)

    sizes = Counter(sizes_of(federation.partition, experiment.partition))
    known = [(clients, of_client(samples)) for samples, clients in sizes.items()]
    gflops = [clients * each for clients, each in known if each is not None]
    return math.fsum(gflops) / sizes.total() if gflops else None
