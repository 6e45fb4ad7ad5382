"""Which engine does the clients' work of one run: the processes of this machine, or Flower's simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from fedtrip.errors import UserError, unknown_name
from fedtrip.rounds.ram import read_size

if TYPE_CHECKING:
    from fedtrip.runs.folder import Destination
    from fedtrip.runs.result import Result

SIMULATION = "fedtrip.flower.simulation"
RunEngine = Literal["local", "flower-simulation"]


def on_engine(
    engine: RunEngine,
    destination: Destination | None,
    round_timeout: float | None,
    min_clients: int | None,
    data_dir: Path | None,
    client_memory: int | str | None = None,
) -> Callable[..., Result]:
    """What runs a prepared federation there and writes it to its destination, called as `run_federation` is."""
    if engine not in get_args(RunEngine):
        raise unknown_name("engine", str(engine), get_args(RunEngine))
    if engine == "local":
        for option, value in (("--round-timeout", round_timeout), ("--min-clients", min_clients)):
            if value is not None:
                raise UserError(f"{option} has no meaning on one machine; accepted: with --engine flower-simulation")
        from fedtrip.runs.running import run_federation

        kept = None if client_memory is None else read_size(client_memory, "--client-memory")
        return partial(run_federation, destination=destination, client_memory=kept)
    if client_memory is not None:
        raise UserError(f"--client-memory has no meaning with --engine {engine}: each node keeps its own on disk")
    if destination is not None and destination.every not in (None, 1):
        raise UserError(
            f"--checkpoint-every is {destination.every}; accepted with --engine {engine}: 1, because a node keeps what "
            "its last round started from, and no more"
        )
    if find_spec("flwr") is None or find_spec("ray") is None:
        raise UserError(f"--engine {engine} needs Flower; accepted: pip install 'fedtrip[flower]'")
    given = {"round_timeout": round_timeout, "min_clients": min_clients}
    simulation = import_module(SIMULATION)  # by its name: nothing here knows Flower
    tolerance = simulation.Tolerance(**{name: value for name, value in given.items() if value is not None})
    return partial(simulation.simulate, destination=destination, tolerance=tolerance, data_dir=data_dir)
