"""The public functions: run an experiment, load what a run left behind, evaluate it."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from fedtrip.costs import paper_gflops_per_round, pass_cost, symbols_of
from fedtrip.data import from_arrays
from fedtrip.data.dataset import DataSet
from fedtrip.engines import make_engine, worker_count
from fedtrip.engines.base import Engine
from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment import Experiment
from fedtrip.federation import Federation, ModelSource, prepare
from fedtrip.flat import FlatModel, state_sha256
from fedtrip.interruption import undisturbed
from fedtrip.one_thread import callback, one_thread, refuse_inside_a_run, whole_run
from fedtrip.own_code import check_trusted, without_method
from fedtrip.ram import read_size
from fedtrip.result import Result
from fedtrip.room import warn_if_no_room
from fedtrip.rounds import FederationState, RoundDetails, RoundRecord, RunEnded, initial_state, rounds
from fedtrip.run_engine import RunEngine, on_engine
from fedtrip.run_writer import RunWriter
from fedtrip.runs import METRICS, MODEL, check_out, read_experiment, read_finished_model, read_records, read_summary
from fedtrip.store import ClientStore

Data = DataSet | Mapping[str, Any] | Sequence[Any]
OnRound = Callable[[RoundRecord], None]
OpenEngine = Callable[[Federation], AbstractContextManager[Engine]]


def run(
    experiment: Experiment | None = None,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    out: Path | str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    checkpoint_every: int | None = None,
    client_memory: int | str | None = None,
    workers: int | None = None,
    engine: RunEngine = "local",
    round_timeout: float | None = None,
    min_clients: int | None = None,
    on_round: OnRound | None = None,
    progress: bool = False,
) -> Result:
    """Run one experiment and return its result.

    `model` is your own module, or a function that makes it (then its initial weights depend on the seed); `data` is
    a `DataSet` (see `from_arrays`, `from_clients`), the four arrays (x_train, y_train, x_test, y_test), or a dict of
    them. `out` writes a run folder; with `resume` the run goes on where that folder's was interrupted, and ends with
    the same bits as if it never had been. What it goes on from is written every `checkpoint_every` rounds, by default
    when a second has passed, or twenty times what it cost the last time; and when the run is left by an exception.
    `client_memory`, bytes or a text such as "2GiB", is what the clients' memories may take of this machine's (default:
    a quarter of what is available); the rest lies on disk. `workers` is the number of processes (default: the cores).
    Neither changes the result. With `engine="flower-simulation"` the clients are nodes of Flower's simulation, whose
    rounds wait for `round_timeout` seconds and need `min_clients` uploads; then model and data are named ones.
    `on_round` is called with each round's record. Runs of several threads of a process wait for each other, because
    torch has one generator; a run cannot be started inside another one's `on_round`.
    """
    refuse_inside_a_run()
    place = None if data_dir is None else Path(data_dir).absolute()
    run_there = on_engine(engine, round_timeout, min_clients, place, checkpoint_every, client_memory)
    where = Path(out) if out is not None else None
    if where is not None:
        check_out(where, overwrite, resume)
    with one_thread():
        federation = prepare(
            experiment or Experiment(),
            model=model,
            data=None if data is None else as_dataset(data),
            data_dir=data_dir,
            progress=progress,
        )
    return run_there(
        federation,
        out=where,
        overwrite=overwrite,
        resume=resume,
        workers=workers,
        on_round=on_round,
    )


@whole_run()
def run_federation(
    federation: Federation,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    checkpoint_every: int | None = None,
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
    if out is None:
        return _run(federation, ClientStore(budget=kept), None, opened, on_round, min_clients)
    writer = RunWriter(
        out,
        federation.experiment,
        overwrite=overwrite,
        resume=resume,
        origin={"data": federation.dataset.sha256(), "model": state_sha256(federation.module.state_dict())},
        checkpoint_every=checkpoint_every,
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
    flat = FlatModel(federation.module, federation.dataset.sample_shape)
    state = initial_state(federation, memories)
    records = list(writer.continue_from(state)) if writer is not None else []
    first = len(records) + 1
    ended = None
    try:
        with (
            open_engine(federation) as engine,
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
        records=tuple(records),
        state=flat.state_dict(state.server.model),
        ended=ended,
        gflops_per_round=_gflops_per_round(federation),
        acceleration=flat.changes,
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


def load_result(
    run_folder: Path | str,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    trust: bool = False,
) -> Result:
    """A finished run as a `Result`; its trained module is built when it is asked for. Damaged files are refused.

    A model that the run names as `package.module:factory` is imported then only with `trust`.
    """
    folder = Path(run_folder)
    experiment, summary = read_experiment(folder), read_summary(folder)
    records, state = read_records(folder), read_finished_model(folder, summary)
    if [record.round for record in records] != list(range(1, len(records) + 1)):
        raise UserError(f"'{folder / METRICS}' is damaged: its rounds are not 1 to {len(records)}")

    def build() -> nn.Module:
        return _stored_federation(folder, experiment, model, data, data_dir, trust).module

    return Result(
        experiment=experiment,
        records=records,
        state=state,
        ended=summary.get("ended"),
        gflops_per_round=summary.get("gflops_per_round"),
        acceleration=tuple(summary.get("acceleration", ())),
        build=build,
    )


def load(
    run_folder: Path | str,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    trust: bool = False,
) -> nn.Module:
    """The trained module of a stored run, in evaluation mode. A model or data given from Python are given again.

    It wants normalised inputs; `load_result(...).predictor()` takes them as they come.
    Code that the run names (a model as `package.module:factory`) is run only with `trust`; stderr says which it is.
    """
    return load_result(run_folder, model=model, data=data, data_dir=data_dir, trust=trust).module


@one_thread()
def evaluate(
    run_folder: Path | str,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    trust: bool = False,
) -> tuple[float, float]:
    """Test accuracy and mean loss of a stored run's model on its experiment's test set.

    Code that the run names (a model as `package.module:factory`) is run only with `trust`; stderr says which it is.
    """
    folder = Path(run_folder)
    stored = load_result(folder)
    federation = _stored_federation(folder, stored.experiment, model, data, data_dir, trust)
    module = copy.deepcopy(federation.module)
    try:
        module.load_state_dict(stored.state)
    except RuntimeError as problem:
        raise UserError(f"model '{folder / MODEL}' does not fit the experiment: {problem}") from None
    with make_engine(federation, 1) as engine:
        return engine.evaluate(FlatModel(module, federation.dataset.sample_shape).model())


def _stored_federation(
    folder: Path,
    experiment: Experiment,
    model: ModelSource | None,
    data: Data | None,
    data_dir: Path | str | None,
    trust: bool,
) -> Federation:
    """Data and model of a stored run, without its method, which nobody needs who only looks at the model."""
    if model is None:
        check_trusted(folder, experiment, trust)
    dataset = None if data is None else as_dataset(data)
    return prepare(without_method(experiment), model=model, data=dataset, data_dir=data_dir)


def as_dataset(data: Data) -> DataSet:
    """A `DataSet` from what a user gives."""
    if isinstance(data, DataSet):
        return data
    if isinstance(data, Mapping):
        known = inspect.signature(from_arrays).parameters
        for name in data:
            if name not in known:
                raise unknown_name("data", str(name), known)
        missing = [name for name, p in known.items() if p.default is p.empty and name not in data]
        if missing:
            raise UserError(f"data lacks {', '.join(missing)}; accepted: x_train, y_train, x_test and y_test")
        return from_arrays(**data)
    if len(data) != 4:
        raise UserError(f"data has {len(data)} parts; accepted: a DataSet, or x_train, y_train, x_test, y_test")
    return from_arrays(*data)


def _keep_snapshot(writer: RunWriter, flat: FlatModel, state: FederationState, details: RoundDetails) -> None:
    writer.snapshot(state.round, "global", flat.state_dict(state.server.model))
    for upload in details.uploads:
        writer.snapshot(state.round, f"client-{upload.client}", flat.state_dict(upload.vectors))


def _gflops_per_round(federation: Federation) -> float | None:
    experiment, dataset = federation.experiment, federation.dataset
    assert experiment.clients is not None
    if not len(dataset.y_train):
        return None  # the clients' samples are theirs: nobody here knows how many
    cost = pass_cost(federation.module, dataset.sample_shape)
    symbols = symbols_of(
        samples=experiment.samples_per_client or round(len(dataset.y_train) / experiment.clients),
        epochs=experiment.local_epochs,
        batch_size=experiment.batch_size,
        parameters=sum(p.numel() for p in federation.module.parameters()),
        forward=cost.forward,
        backward=cost.training - cost.forward,
    )
    return paper_gflops_per_round(federation.method, symbols, experiment.local_epochs)
