"""Says beforehand what the clients' memories will take, on the disk and of the machine's memory."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from fedtrip.experiment.complete import CompleteExperiment
from fedtrip.experiment.federation import Federation
from fedtrip.rounds.state import FederationState
from fedtrip.vectors import size_in_bytes

TOLD_FROM = 10**9
"""Bytes on the disk from which they are told also if there is room."""


def expected_memory(federation: Federation, state: FederationState) -> int | None:
    """Bytes that a client will keep between its rounds, or None if its method does not say it.

    Beside the method's own vectors these are the local optimizer's state, if it is kept, what a codec with error
    feedback has not sent, and the parts of the model that never travel.
    """
    rules, server = federation.rules, state.server
    kept = rules.method.kept(server)
    if kept is None:
        return None
    upload, personal = rules.method.expected(server), 0
    if state.travelling:
        upload, personal = state.travelling.cut(upload), size_in_bytes(state.travelling.personal(server.model))
    optimizer = rules.optimizer.start(server.w) if federation.experiment.keep_optimizer_state else {}
    states = rules.method.trainings * size_in_bytes(optimizer)
    return size_in_bytes(kept) + states + rules.upload_codec.kept_bytes(upload) + personal


def tell_room(experiment: CompleteExperiment, state: FederationState, size: int, out: Path | None) -> None:
    """Where clients keep `size` bytes each: how much will lie on the disk of the run folder, or, without one, of the
    temporary folder for what does not fit into memory? It is told if that is much, or more than there is room for."""
    coming = experiment.per_round * (experiment.rounds - state.round)
    clients = min(experiment.clients, len(state.memories) + coming)
    if out is None:
        folder, needed = Path(tempfile.gettempdir()), clients * size - state.memories.budget
        help_ = "a larger --client-memory (client_memory in Python) keeps more of it in memory"
    else:
        folder, needed = out, (clients - len(state.memories.written)) * size
        help_ = "the run may end there before its last round"
    free = shutil.disk_usage(folder).free
    if size and needed > min(free, TOLD_FROM):
        logging.getLogger(__name__).warning(
            "%d clients keep up to %.1f MB, of which %.1f MB stay in memory too; %.1f MB more than now will lie in "
            "'%s', where there is room for %.1f MB%s",
            clients, clients * size / 1e6, min(clients * size, state.memories.budget) / 1e6, needed / 1e6, folder,
            free / 1e6, f"; {help_}" if needed > free else "",
        )  # fmt: skip
