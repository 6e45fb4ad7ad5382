"""Experiments made ready one after the other, with each data set loaded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.data.dataset import DataSet
from fedtrip.data.locate import find_set
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, ModelSource, prepare
from fedtrip.experiment.own_code import TO_SHOW, own_code


class Preparer:
    """`prepare` that loads each data set once, whatever the number of variants and trials.

    Without `download` and `own_code` it only looks at what is there: for pages about somebody's runs.
    """

    def __init__(
        self,
        model: ModelSource | None = None,
        data: DataSet | None = None,
        data_dir: Path | str | None = None,
        *,
        progress: bool = False,
        download: bool = True,
        own_code: bool = True,
    ) -> None:
        self._model, self._data, self._progress, self._download = model, data, progress, download
        self._own_code = own_code
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._loaded: dict[tuple[object, ...], DataSet] = {}

    @property
    def given(self) -> dict[str, Any]:
        """What was given in place of names, as `load_result` takes it."""
        return {"model": self._model, "data": self._data, "data_dir": self._data_dir}

    def __call__(self, experiment: Experiment) -> Federation:
        """The federation of an experiment."""
        key = (experiment.dataset, experiment.mean, experiment.std)
        known = KNOWN_SETS.get(experiment.dataset)
        if not self._download and known is not None and known.files and find_set(known, self._data_dir) is None:
            raise UserError(f"data set '{known.name}' is not on this machine; `fedtrip data get {known.name}` gets it")
        code = [] if self._own_code else own_code(experiment, TO_SHOW if self._model is None else TO_SHOW[1:])
        if code:
            raise UserError(f"the run names code of its own, {', '.join(code)}, which a report never runs")
        federation = prepare(
            experiment,
            model=self._model,
            data=self._data,
            data_dir=self._data_dir,
            progress=self._progress,
            loaded=self._loaded.get(key),
        )
        self._loaded[key] = federation.dataset
        return federation
