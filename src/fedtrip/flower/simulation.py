"""A run on Flower's simulation: the same ServerApp loop and ClientApp, on processes of this machine."""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedtrip.engines import worker_count
from fedtrip.errors import UserError
from fedtrip.experiment.description import PYTHON
from fedtrip.experiment.federation import Federation
from fedtrip.flower.client_app import client_app
from fedtrip.flower.engine import Tolerance
from fedtrip.flower.node import DATA_DIR, MEMORY_DIR
from fedtrip.flower.server import run_on_grid
from fedtrip.runs.folder import CHECKPOINT, Destination
from fedtrip.runs.on_round import OnRound
from fedtrip.runs.result import Result


def simulate(
    federation: Federation,
    *,
    destination: Destination | None = None,
    tolerance: Tolerance,
    workers: int | None = None,
    on_round: OnRound | None = None,
    data_dir: Path | None = None,
) -> Result:
    """Run a federation of named things (a simulated node makes its own copy of them) with one node for each client.

    Without a `destination` the run's folder, where the nodes keep their memories too, is a temporary one.
    """
    experiment = federation.experiment
    for name, value in (("dataset", experiment.dataset), ("model", experiment.model)):
        if value.startswith(PYTHON):
            raise UserError(
                f"{name} is a Python object, which no node can make; accepted: a name or package.module:name"
            )
    if destination is None:
        with tempfile.TemporaryDirectory(prefix="fedtrip-") as folder:
            return simulate(
                federation,
                destination=Destination(Path(folder) / "run"),
                tolerance=tolerance,
                workers=workers,
                on_round=on_round,
                data_dir=data_dir,
            )
    results: list[Result] = []
    interruptions: list[KeyboardInterrupt] = []
    server, stop = ServerApp(), threading.Event()

    @server.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001
        try:
            result = run_on_grid(
                grid,
                federation,
                destination,
                tolerance=tolerance,
                on_round=on_round,
                stop=stop,
            )
        except KeyboardInterrupt as interruption:  # in Flower's thread it would only be printed
            interruptions.append(interruption)
        else:
            results.append(result)

    nodes = {
        MEMORY_DIR: str(destination.out / CHECKPOINT / "nodes")
    }  # removed with the checkpoint when the run is finished
    if data_dir is not None:
        nodes[DATA_DIR] = str(data_dir)
    flower_log = logging.getLogger("flwr")
    level = flower_log.level
    flower_log.setLevel(logging.ERROR)  # the progress shown is ours
    try:
        run_simulation(
            server_app=server,
            client_app=client_app(**nodes),
            num_supernodes=experiment.clients or 1,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0},
                # local: a Ray of its own, also where another simulation or a cluster runs on this machine
                "init_args": {"address": "local", "num_cpus": worker_count(workers), "log_to_driver": False},
            },
        )
    finally:
        stop.set()  # after Ctrl-C the server's thread would wait for nodes that are gone
        flower_log.setLevel(level)
    if interruptions:
        raise interruptions[0]
    return results[0]
