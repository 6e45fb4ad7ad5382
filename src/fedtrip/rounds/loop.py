"""The round loop, written once: select, broadcast, map over the chosen clients, aggregate, evaluate, record."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedtrip.engines.base import Engine
from fedtrip.errors import UserError
from fedtrip.experiment.description import LARGEST
from fedtrip.experiment.federation import Federation
from fedtrip.interruption import undisturbed
from fedtrip.methods.interface import Memory, Method, Server, Upload, Vectors, mean
from fedtrip.printable import one_line
from fedtrip.randomness import stream
from fedtrip.rounds.client_faults import round_faults
from fedtrip.rounds.memories import ClientStore
from fedtrip.training.client import Task
from fedtrip.training.flat_model import FlatModel

ATTEMPTS = 3
"""How often a round is tried that too few clients answer."""


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round; a line of `metrics.jsonl`."""

    round: int
    accuracy: float | None
    """on the whole test set; None in a round that is not evaluated"""
    loss: float | None
    clients: tuple[int, ...]
    """the chosen clients"""
    bytes_down: int
    bytes_up: int
    macs: int
    """multiply-adds of all clients and of the server together"""
    seconds: float
    refused: Mapping[int, str] = field(default_factory=dict)
    """clients whose upload was left out, and why"""
    client_memory: int = 0
    """bytes that a client of this round keeps until its next, the most of any"""
    dropped: tuple[int, ...] = ()
    """chosen clients that never answered"""
    unchanged: bool = False
    """whether nobody sent anything usable, so that the model is the one of the round before"""
    wire_down: int = 0
    """serialised size of what was sent down; 0 on an engine that serialises nothing"""
    wire_up: int = 0
    """serialised size of what was sent up"""


def record_from_json(fields: Mapping[str, Any]) -> RoundRecord:
    """A record from its JSON form, in which tuples are lists and the keys of a table are text.

    Raises `ValueError`, `TypeError`, `KeyError` or `AttributeError` if it is not one.
    """
    plain = {
        "clients": tuple(fields["clients"]),
        "dropped": tuple(fields.get("dropped", ())),
        "refused": {int(client): str(reason) for client, reason in fields["refused"].items()},
    }
    record = RoundRecord(**{**fields, **plain})
    counts = [getattr(record, name) for name in _COUNTS]
    if not all(type(n) is int and 0 <= n <= LARGEST for n in (*counts, *record.clients, *record.dropped)):
        raise TypeError("a count is no count")
    measured = [number for number in (record.accuracy, record.loss) if number is not None]
    if not all(type(number) in (int, float) for number in (*measured, record.seconds)):
        raise TypeError("a number is none")
    if type(record.unchanged) is not bool:
        raise TypeError("it is neither true nor false")
    return record


_COUNTS = ("round", "bytes_down", "bytes_up", "macs", "client_memory", "wire_down", "wire_up")


@dataclass
class FederationState:
    """Everything that a run carries from one round to the next."""

    server: Server
    memories: ClientStore
    round: int = 0
    is_whole: bool = True
    """whether it is that of one finished round, and not partly that of the next"""

    def advance(self, done: RoundDone) -> None:
        """Take over what a round resulted in. A memory that cannot be stored leaves a state that is not whole."""
        self.is_whole = False
        for client, memory in done.memories.items():
            self.memories.put(client, memory)
        self.server, self.round = done.server, done.record.round
        self.is_whole = True


@dataclass(frozen=True)
class RoundDetails:
    """What a consumer may want beside the record: the models that the clients sent."""

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


class TooFewClients(UserError):
    """A round that fewer clients answered than the run demands; the state is as it was before that round."""


def initial_state(federation: Federation, memories: ClientStore) -> FederationState:
    """The state before the first round."""
    experiment = federation.experiment
    model = FlatModel(federation.module, federation.dataset.sample_shape).model()
    assert experiment.clients is not None
    server = Server(
        model=model, state=federation.method.start(model["w"]), clients=experiment.clients, lr=experiment.lr
    )
    return FederationState(server, memories)


def chosen_clients(seed: int, round_number: int, clients: int, per_round: int) -> tuple[int, ...]:
    """K of N clients, uniformly without replacement, a function of seed and round alone; in ascending order."""
    picked = stream(seed, "selection", round_number).choice(clients, per_round, replace=False)
    return tuple(sorted(int(client) for client in picked))


def rounds(
    federation: Federation,
    engine: Engine,
    state: FederationState,
    before: Sequence[RoundRecord] = (),
    min_clients: int = 0,
) -> Generator[tuple[RoundRecord, RoundDetails]]:
    """Run the remaining rounds, advancing `state`; one record for each. `before` are those of a run that goes on.

    From the step to the next state until the next round is asked for, no signal interrupts: a round that counts is
    recorded. Raises `RunEnded`, or `TooFewClients` if a round has fewer than `min_clients` usable uploads three times,
    with the state as it was before that round.
    """
    experiment = federation.experiment
    goal = experiment.target if experiment.stop_at_target else None
    reached = goal is not None and first_round_reaching(before, goal) is not None
    while state.round < experiment.rounds and not reached:
        done = _attempted(federation, engine, state, min_clients)
        with undisturbed():
            state.advance(done)
            yield done.record, done.details
        reached = goal is not None and first_round_reaching([done.record], goal) is not None


def first_round_reaching(records: Sequence[RoundRecord], target: float) -> int | None:
    """The first round whose test accuracy is at least the target; None if there is none."""
    return next((r.round for r in records if r.accuracy is not None and r.accuracy >= target), None)


def _attempted(federation: Federation, engine: Engine, state: FederationState, min_clients: int) -> RoundDone:
    """One communication round, tried again if too few clients answer."""
    for attempt in range(1, ATTEMPTS):
        try:
            return _round(federation, engine, state, min_clients)
        except TooFewClients as problem:
            logging.getLogger(__name__).warning("%s; attempt %d of %d failed", problem, attempt, ATTEMPTS)
    return _round(federation, engine, state, min_clients)


def one_round(
    federation: Federation, engine: Engine, state: FederationState, min_clients: int = 0
) -> tuple[RoundRecord, RoundDetails]:
    """One communication round."""
    done = _round(federation, engine, state, min_clients)
    state.advance(done)
    return done.record, done.details


def _round(federation: Federation, engine: Engine, state: FederationState, min_clients: int) -> RoundDone:
    """What comes of one communication round; the state stays as it is."""
    began = time.perf_counter()
    experiment, method = federation.experiment, federation.method
    assert experiment.clients is not None
    assert experiment.per_round is not None
    number = state.round + 1
    chosen = chosen_clients(experiment.seed, number, experiment.clients, experiment.per_round)
    memories = {client: state.memories.get(client) for client in chosen}
    faults = round_faults(experiment.seed, number, chosen, experiment.dropout, experiment.corrupt)
    honest = set(chosen) - set(faults.dropped) - faults.corrupted.keys()
    server = replace(state.server, round=number)
    uploads: list[Upload] = []
    refused: dict[int, str] = {}
    bytes_down = bytes_up = macs = wire_down = wire_up = absent = 0

    for exchange in range(method.exchanges):
        server = replace(server, exchange=exchange)
        received = _as_sent(method.broadcast(server))
        asked = [
            client for client in chosen if client not in refused and (exchange == 0 or client not in faults.dropped)
        ]
        tasks = [
            Task(client, number, exchange, received, memories[client])
            for client in asked
            if client not in faults.dropped
        ]
        bytes_down += len(asked) * size_in_bytes(received)
        uploads = []
        for result in engine.clients(tasks):
            expected = method.expected(server)
            if result.problem is None and not result.remote:
                _check_it_is_as_said(experiment.method.name, result.client, result.upload, expected)
            corruption = faults.corrupted.get(result.client)
            outcome = result if corruption is None or result.problem is not None else corruption.of(result)
            bytes_up += size_in_bytes(outcome.upload)
            wire_down, wire_up = wire_down + outcome.wire_down, wire_up + outcome.wire_up
            absent += outcome.problem is not None
            macs += outcome.macs + sum(vector.numel() for vector in outcome.upload.values())  # and its averaging
            reason = outcome.problem or reason_to_refuse(outcome.upload, expected)
            if reason is not None:
                refused[outcome.client] = one_line(reason)  # a node may call its vectors what it likes
                continue
            uploads.append(Upload(outcome.client, outcome.samples, outcome.upload))
            memories[outcome.client] = outcome.memory
        if len(uploads) < min_clients and (uploads or absent):  # all refused for what they sent: it diverged
            reasons = "; ".join(f"client {client}: {reason}" for client, reason in sorted(refused.items()))
            raise TooFewClients(
                f"round {number}: {len(uploads)} of {len(chosen)} clients sent a usable upload, min-clients is "
                f"{min_clients} ({reasons})"
            )
        if uploads:
            server = _with_averaged_buffers(method.aggregate(server, uploads), method, uploads)
            why = None if is_finite(server.model) else "the server's step gave a global model that is not finite"
        elif honest:
            reasons = "; ".join(sorted(set(refused.values())))
            why = f"none of the {len(tasks)} uploads could be used ({reasons})"
        else:  # only simulated faults: the federation waits for the next round
            server = replace(state.server, round=number)
            break
        if why is not None:
            seconds = time.perf_counter() - began
            ended = RoundRecord(
                number, None, None, chosen, bytes_down, bytes_up, macs, seconds, refused, dropped=faults.dropped
            )
            raise RunEnded(why, ended)

    if uploads:
        macs += method.server_operations * server.w.numel()
    new = {upload.client: memories[upload.client] for upload in uploads}
    kept = max((memory.size_in_bytes() for memory in new.values()), default=0)
    accuracy = loss = None
    if number % experiment.eval_every == 0 or number == experiment.rounds:
        accuracy, loss = engine.evaluate(server.model)
    seconds = time.perf_counter() - began
    record = RoundRecord(
        number, accuracy, loss, chosen, bytes_down, bytes_up, macs, seconds, refused,
        client_memory=kept, dropped=faults.dropped, unchanged=not uploads, wire_down=wire_down, wire_up=wire_up,
    )  # fmt: skip
    return RoundDone(server, new, record, RoundDetails(tuple(uploads)))


def size_in_bytes(vectors: Mapping[str, Tensor]) -> int:
    """The size of the arrays that travel."""
    return sum(vector.nbytes for vector in vectors.values())


def reason_to_refuse(upload: Vectors, expected: Vectors) -> str | None:
    """Why an upload cannot be averaged in, or None if it can."""
    infinite = [name for name in expected if name in upload and not is_finite({name: upload[name]})]
    return _difference(upload, expected) or (f"'{infinite[0]}' is not finite" if infinite else None)


def _difference(upload: Vectors, expected: Vectors) -> str | None:
    """In what names, shapes or types an upload is not what the method says it is."""
    for name, like in expected.items():
        if name not in upload:
            return f"'{name}' is missing"
        vector = upload[name]
        if vector.shape != like.shape:
            return f"'{name}' has the shape {tuple(vector.shape)} instead of {tuple(like.shape)}"
        if vector.is_floating_point() != like.is_floating_point():
            return f"'{name}' is of type {vector.dtype} instead of {like.dtype}"
    unknown = [name for name in upload if name not in expected]
    return f"'{unknown[0]}' is not what `expected` of the method names" if unknown else None


def _check_it_is_as_said(method: str, client: int, upload: Vectors, expected: Vectors) -> None:
    """Refuse to go on where the method's own code, on this machine, sends something else than it says."""
    if (reason := _difference(upload, expected)) is not None:
        said = ", ".join(f"{name} of shape {tuple(like.shape)}" for name, like in expected.items()) or "nothing"
        raise UserError(
            f"method '{method}': what its client {client} sends does not fit: {reason}; accepted: what its `expected` "
            f"names, {said}"
        )


def is_finite(vectors: Mapping[str, Tensor]) -> bool:
    """Whether every number is finite."""
    floats = [vector for vector in vectors.values() if vector.is_floating_point()]
    # a finite sum has finite terms; only where it is not (it may have overflowed) each number is looked at
    return all(math.isfinite(v.sum()) or bool(torch.isfinite(v).all()) for v in floats)


def _as_sent(vectors: Vectors) -> Vectors:
    """What travels is float32 (and integers), whatever precision the server computes in."""
    return {name: v.to(torch.float32) if v.is_floating_point() else v for name, v in vectors.items()}


def _with_averaged_buffers(server: Server, method: Method, uploads: Sequence[Upload]) -> Server:
    """Buffers are outside every method: floating-point ones are averaged plainly, integer ones take the maximum."""
    averaged = dict(server.model)
    if all("buffers" in upload.vectors for upload in uploads):
        averaged["buffers"] = mean(uploads, "buffers", method.weighting).to(torch.float32)
    if all("counters" in upload.vectors for upload in uploads):
        averaged["counters"] = torch.stack([upload["counters"] for upload in uploads]).amax(0)
    return replace(server, model=averaged)
