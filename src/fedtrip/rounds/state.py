"""What a run carries from one round to the next, and what one round results in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation
from fedtrip.layout import Travelling
from fedtrip.methods.interface import Memory, Server, Upload
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.record import RoundRecord
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.vectors import Vectors

COMBINING, OPTIMIZER, BEST = "combining ", "server optimizer ", "best "
"""What the names of these rules' vectors begin with in the server's state; a method's have no space in their names."""


@dataclass
class FederationState:
    """Everything that a run carries from one round to the next."""

    server: Server
    memories: ClientStore
    travelling: Travelling
    """which parts of the model travel"""
    round: int = 0
    is_whole: bool = True
    """whether it is that of one finished round, and not partly that of the next"""

    def advance(self, done: RoundDone) -> None:
        """Take over what a round resulted in. A memory that cannot be stored leaves a state that is not whole."""
        self.is_whole = False
        for client, memory in done.memories.items():
            self.memories.put(client, memory)
        best = part_of(self.server.state, BEST)
        self.server, self.round = done.server, done.record.round
        self._keep_best(best)
        self.is_whole = True

    def keep_model_as_best(self) -> None:
        """The model of this round is the best so far, and is kept until a better one comes."""
        self._keep_best(self.server.model)

    def best_model(self) -> Vectors:
        """The model that was kept as the best; that of the last round if none was."""
        return part_of(self.server.state, BEST) or self.server.model

    def _keep_best(self, model: Vectors) -> None:
        """Beside the server's state, so that a checkpoint has it too; whatever a method makes of the state."""
        others = {name: vector for name, vector in self.server.state.items() if not name.startswith(BEST)}
        self.server = replace(self.server, state=others | prefixed(BEST, model))


@dataclass(frozen=True)
class RoundDetails:
    """What a consumer may want beside the record: the models that the clients sent, in a round of a snapshot."""

    uploads: tuple[Upload, ...]


@dataclass(frozen=True)
class RoundDone:
    """What a round resulted in; the state it started from is as it was."""

    server: Server
    memories: Mapping[int, Memory]
    """of the clients whose upload was used"""
    record: RoundRecord
    details: RoundDetails


class RunEnded(RuntimeError):
    """A round that left no usable model: the run ends with the model of the round before."""

    def __init__(self, why: str, record: RoundRecord) -> None:
        super().__init__(
            f"round {record.round}: {why}; the training diverged: a smaller learning rate or regulariser may help"
        )
        self.record = record


class RunPaused(Exception):
    """A run was left after the round that it was to be left after, and goes on from there another time."""


class TooFewClients(UserError):
    """A round that fewer clients answered than the run demands; the state is as it was before that round."""


def initial_state(
    federation: Federation, memories: ClientStore, prepared: PreparedModel | None = None
) -> FederationState:
    """The state before the first round."""
    flat = (prepared or PreparedModel.of(federation)).flat
    model, layout = flat.model_of(federation.module), flat.layout
    rules = federation.rules
    state = {
        **rules.method.start(model["w"]),
        **prefixed(COMBINING, rules.combine.start(model)),
        **prefixed(OPTIMIZER, rules.server_optimizer.start(model["w"])),
    }
    server = Server(model=model, state=state, clients=federation.experiment.clients, lr=federation.lr(1))
    return FederationState(server, memories, Travelling(layout, rules.method.stays(layout)))


def prefixed(prefix: str, vectors: Vectors) -> Vectors:
    """The vectors under names that begin so."""
    return {prefix + name: vector for name, vector in vectors.items()}


def part_of(vectors: Vectors, prefix: str) -> Vectors:
    """The vectors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): v for name, v in vectors.items() if name.startswith(prefix)}
