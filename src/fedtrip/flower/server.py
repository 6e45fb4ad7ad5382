"""Our round loop on a Flower grid, with a run folder on the server that a later run goes on from."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flwr.serverapp import Grid

from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation
from fedtrip.files.atomic import replacing, write_text
from fedtrip.files.lock import FolderLock
from fedtrip.flower.engine import FlowerEngine, Tolerance
from fedtrip.layout import Travelling
from fedtrip.rounds.client_scores import has_personal_models
from fedtrip.runs.folder import CHECKPOINT, Destination
from fedtrip.runs.on_round import OnRound
from fedtrip.runs.result import Result
from fedtrip.runs.running import run_federation
from fedtrip.training.prepared_model import PreparedModel

KEY = "run-key"
"""File in the checkpoint's folder with the name that the run has on the nodes' disks."""
SECRET = "noise-secret"
UNLOCKING = 30.0
"""Seconds that a server whose SuperLink was killed may need to end, before another takes its folder up."""


def run_on_grid(
    grid: Grid,
    federation: Federation,
    destination: Destination,
    *,
    tolerance: Tolerance,
    on_round: OnRound | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """Run a federation on the grid's nodes; the memories of its clients are on the nodes, all else is in its folder.

    There is a checkpoint of every round, because a node can go back by one round only. `stop` ends the waiting for
    nodes that nobody will hear of any more.
    """
    engines: list[FlowerEngine] = []
    out = destination.out

    @contextmanager
    def opened(run: Federation, prepared: PreparedModel) -> Iterator[FlowerEngine]:
        _check_no_personal_models(run, prepared)
        engines.append(FlowerEngine(grid, run, prepared, _key(out), tolerance, stop or threading.Event()))
        yield engines[0]

    out.mkdir(parents=True, exist_ok=True)
    FolderLock(out, patience=UNLOCKING).release()
    result = run_federation(
        federation,
        destination=replace(destination, every=1),
        on_round=on_round,
        open_engine=opened,
        min_clients=tolerance.min_clients,
    )
    for engine in engines:
        engine.forget()
    return result


def _check_no_personal_models(federation: Federation, prepared: PreparedModel) -> None:
    """Refuse to ask for models that the nodes have and the server does not."""
    experiment, layout = federation.experiment, prepared.flat.layout
    travelling = Travelling(layout, federation.method.stays(layout))
    if experiment.eval_clients is not None and has_personal_models(federation.method, travelling):
        raise UserError(
            f"eval_clients is {experiment.eval_clients}, but with method '{experiment.method.name}' every client has a "
            "model of its own, which stays on its node; accepted: leave it out, or the local engine"
        )


def noise_secret(out: Path) -> str:
    """What the noise of a private run follows from beside the seed, which every node knows; kept for its resumptions.

    Only the server's own user can read it. Who has it can take the noise away, so it goes with the checkpoint.
    """
    path = out / CHECKPOINT / SECRET
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.touch(mode=0o600)
            temporary.write_text(secrets.token_hex(32), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def _key(out: Path) -> str:
    """What names this run on the nodes, through all its resumptions."""
    path = out / CHECKPOINT / KEY
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, secrets.token_hex(16))
    return path.read_text(encoding="utf-8")
