"""Says beforehand that the clients' memories will not fit on the disk."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from fedtrip.experiment.complete import CompleteExperiment
from fedtrip.rounds.state import FederationState


def warn_if_no_room(experiment: CompleteExperiment, state: FederationState, size: int, out: Path | None) -> None:
    """After a round whose clients keep `size` bytes each: will there be room for all of them, on the disk of the run
    folder, or, without one, of the temporary folder for what does not fit into memory?"""
    coming = experiment.per_round * (experiment.rounds - state.round)
    clients = min(experiment.clients, len(state.memories) + coming)
    if out is None:
        folder, needed = Path(tempfile.gettempdir()), clients * size - state.memories.budget
        help_ = "a larger --client-memory (client_memory in Python) keeps more of it in memory"
    else:
        folder, needed = out, (clients - len(state.memories.written)) * size
        help_ = "the run may end there before its last round"
    free = shutil.disk_usage(folder).free
    if size and needed > free:
        logging.getLogger(__name__).warning(
            "%d clients keep up to %.1f MB, %.1f MB more than now in '%s', where there is room for %.1f MB; %s",
            clients, clients * size / 1e6, needed / 1e6, folder, free / 1e6, help_,
        )  # fmt: skip
