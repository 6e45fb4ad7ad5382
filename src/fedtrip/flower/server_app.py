"""The ServerApp that `flwr run` starts: it reads the run's settings and runs our round loop over the grid.

A run does not survive its SuperLink, so it is resumed by a new `flwr run` with the same `out`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.flower.engine import Tolerance
from fedtrip.flower.own_data import NODES, samples_of, server_federation
from fedtrip.flower.server import noise_secret, run_on_grid
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import Destination

app = ServerApp()
log = logging.getLogger("fedtrip")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run, or go on with, the experiment that the run's settings name."""
    log.handlers, log.propagate = logging.getLogger("flwr").handlers, False  # into the log that `flwr log` shows
    log.setLevel(logging.INFO)
    config = context.run_config
    out = Path(_text(config, "out")).expanduser().absolute()
    tolerance = Tolerance(float(config["round-timeout"]), int(config["min-clients"]))
    federation = _federation(Experiment.from_toml(_experiment_file(_text(config, "experiment"))), config)
    if federation.rules.combine.is_private:
        federation = replace(federation, secret=noise_secret(out))
    result = run_on_grid(grid, federation, Destination(out, resume=True), tolerance=tolerance, on_round=_tell)
    log.info("model %s in %s", result.model_sha256, out)
    if result.ended is not None:
        raise RuntimeError(f"ended early: {result.ended}")


def _federation(experiment: Experiment, config: Mapping[str, Any]) -> Federation:
    if experiment.dataset == NODES:
        return server_federation(experiment, samples_of(_text(config, "data"), config, experiment))
    return prepare(experiment, data_dir=config.get("data-dir") or None)


def _experiment_file(name: str) -> Path:
    """The file of this name in the app, or anywhere on the server if the name is a whole path.

    Flower tells an app where it was unpacked only by putting that folder on Python's path.
    """
    return next((path for folder in sys.path if (path := Path(folder) / name).is_file()), Path(name))


def _text(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise UserError(f"the run's {name} is {value!r}; accepted: a text, e.g. --run-config '{name}=\"...\"'")
    return value


def _tell(record: RoundRecord) -> None:
    shown = {name: value for name, value in record.scores.items() if value is not None}
    scores = "".join(
        f", {name} {value:.2%}" if name == "accuracy" else f", {name} {value:.4g}" for name, value in shown.items()
    )
    used = len(record.clients) - len(record.refused)
    log.info("round %d: %d of %d clients%s", record.round, used, len(record.clients), scores)
    for client, reason in record.refused.items():
        log.warning("round %d: client %d left out: %s", record.round, client, reason)
