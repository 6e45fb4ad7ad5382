"""The public functions of one run: run an experiment, load what a run left behind, evaluate it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

from torch import nn

from fedtrip.arguments import checked_arguments
from fedtrip.data.dataset import DataSet
from fedtrip.engines import make_engine
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, ModelSource, prepare
from fedtrip.experiment.given_data import Data, Samples, as_dataset, tested_on
from fedtrip.experiment.names import run_title
from fedtrip.one_thread import one_thread, refuse_inside_a_run
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import (
    MODEL,
    Destination,
)
from fedtrip.runs.on_round import ModelView, OnRound, takes_the_model
from fedtrip.runs.result import Result
from fedtrip.runs.run_engine import RunEngine, on_engine
from fedtrip.runs.stored import load_result, stored_federation
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.trained_state import load_trained_state
from fedtrip.training.workbench import Question

EXPERIMENT_GIVEN = "an Experiment, such as Experiment(method='fedavg', rounds=20)"
MODEL_GIVEN = "a torch module, or a function that makes one; a built-in one is named by Experiment(model=...)"
"""What is accepted, in the words of a message."""


@checked_arguments(
    fields=lambda: Experiment.model_fields, leave=("data", "engine"), experiment=EXPERIMENT_GIVEN, model=MODEL_GIVEN
)
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
    `on_round` is called with each round's record, and with `progress` the rounds are shown as they are done, on a
    terminal and in a notebook. Runs of several threads of a process wait for each other, because
    torch has one generator; a run cannot be started inside another one's `on_round`.
    """
    refuse_inside_a_run()
    experiment = experiment or Experiment()
    place = None if data_dir is None else Path(data_dir).absolute()
    if out is None:
        for option, asked in (("overwrite", overwrite), ("resume", resume), ("checkpoint_every", checkpoint_every)):
            if asked:
                raise UserError(f"{option} is {asked}, but nothing is written; accepted: out=FOLDER too")
    destination = None if out is None else Destination(Path(out), overwrite, resume, checkpoint_every)
    run_there = on_engine(engine, destination, round_timeout, min_clients, place, client_memory)
    if destination is not None:
        destination.check()
    with one_thread():
        federation = prepare(
            experiment,
            model=model,
            data=None if data is None else as_dataset(data, experiment),
            data_dir=data_dir,
            progress=progress,
        )
    if not progress:
        return run_there(federation, workers=workers, on_round=on_round)
    return _run_shown(federation, run_there, workers, on_round)


def _run_shown(
    federation: Federation, run_there: Callable[..., Result], workers: int | None, on_round: OnRound | None
) -> Result:
    """Run it, and show the rounds."""
    from fedtrip.api.progress import LiveRun

    experiment, goal = federation.experiment, federation.rules.task.goal
    with LiveRun(run_title(experiment), experiment.rounds, goal, experiment.target) as live:

        def both(record: RoundRecord, model: ModelView) -> None:
            live.round(record)
            if on_round is not None:
                on_round(record, model) if takes_the_model(on_round) else on_round(record)  # type: ignore[call-arg]

        return run_there(federation, workers=workers, on_round=both)


@checked_arguments(leave=("data", "on"), model=MODEL_GIVEN)
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
    Code that the run names (a model or a task as `package.module:name`) is run only with `trust`; stderr says which.
    """
    return load_result(run_folder, model=model, data=data, data_dir=data_dir, trust=trust).module


@checked_arguments(leave=("data", "on"), model=MODEL_GIVEN)
@one_thread()
def evaluate(
    run_folder: Path | str,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    trust: bool = False,
    on: str | Samples | DataSet | None = None,
    details: bool = False,
) -> dict[str, float]:
    """The task's scores of a stored run's model on its experiment's test set by name, such as `accuracy` and `loss`.

    `on` are other samples to test it on: the name of a data set (its test set is meant), a `DataSet`, or a pair of
    inputs and targets. They are normalised as the run's own were.
    With `details` every score that the task knows, of a classification also balanced accuracy, macro F1 and AUC.
    Code that the run names (a model or a task as `package.module:name`) is run only with `trust`; stderr says which.
    """
    folder = Path(run_folder)
    stored = load_result(folder)
    federation = stored_federation(folder, stored.experiment, model, data, data_dir, trust)
    if on is not None:
        federation = tested_on(federation, on, None if data_dir is None else Path(data_dir))
    module = copy.deepcopy(federation.module)
    try:
        load_trained_state(module, stored.state)
    except RuntimeError as problem:
        raise UserError(f"model '{folder / MODEL}' does not fit the experiment: {problem}") from None
    if details:
        federation = federation.in_detail()
    prepared = PreparedModel.of(federation)
    with make_engine(federation, prepared, workers=1) as engine:
        (sums,) = engine.score([Question(prepared.flat.model_of(module))])
    return federation.rules.task.scores(sums, len(federation.dataset.y_test))
