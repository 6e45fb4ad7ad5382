"""A run that a folder holds, as a `Result` again."""

from __future__ import annotations

import copy
from pathlib import Path

from torch import nn

from fedtrip.arguments import checked_arguments
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, ModelSource, prepare
from fedtrip.experiment.given_data import Data, as_dataset
from fedtrip.experiment.own_code import check_trusted, to_score
from fedtrip.runs.folder import (
    METRICS,
    read_experiment,
    read_finished_model,
    read_records,
    read_summary,
)
from fedtrip.runs.result import Result
from fedtrip.runs.unfinished import check_finished
from fedtrip.tasks.interface import ACCURACY, Goal


@checked_arguments(leave=("data",), model="a torch module, or a function that makes one")
def load_result(
    run_folder: Path | str,
    *,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    trust: bool = False,
) -> Result:
    """A finished run as a `Result`; its trained module is built when it is asked for. Damaged files are refused, and so
    is a run that is not finished, with what there is of it.

    A model or a task that the run names as `package.module:name` is imported then only with `trust`.
    """
    folder = Path(run_folder)
    experiment = read_experiment(folder)
    check_finished(folder)
    summary = read_summary(folder)
    records, state = read_records(folder), read_finished_model(folder, summary)
    if [record.round for record in records] != list(range(1, len(records) + 1)):
        raise UserError(f"'{folder / METRICS}' is damaged: its rounds are not 1 to {len(records)}")

    def build() -> nn.Module:
        # a copy: the trained parameters must not go into the module that the caller gave
        return copy.deepcopy(stored_federation(folder, experiment, model, data, data_dir, trust).module)

    return Result(
        experiment=experiment,
        goal=Goal(**summary["goal"]) if summary.get("goal") else ACCURACY,
        records=records,
        state=state,
        ended=summary.get("ended"),
        stopped=summary.get("stopped"),
        remark=summary.get("remark"),
        method_label=summary.get("method_label"),
        gflops_per_round=summary.get("gflops_per_round"),
        acceleration=tuple(summary.get("acceleration", ())),
        kernels=summary.get("kernels"),
        build=build,
    )


def stored_federation(
    folder: Path,
    experiment: Experiment,
    model: ModelSource | None,
    data: Data | None,
    data_dir: Path | str | None,
    trust: bool,
) -> Federation:
    """Data, model and task of a stored run, without its other rules, which nobody needs who only tests the model."""
    check_trusted(folder, experiment, trust, given=() if model is None else ("model",))
    dataset = None if data is None else as_dataset(data, experiment)
    return prepare(to_score(experiment), model=model, data=dataset, data_dir=data_dir)
