"""One round under way: what is sent, what comes back and is used, what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fedtrip.attacks.interface import Faults
from fedtrip.engines.base import Engine
from fedtrip.experiment.federation import Federation
from fedtrip.methods.interface import Memory, Server, Upload
from fedtrip.printable import one_line
from fedtrip.randomness import stream
from fedtrip.rounds.attackers import Attackers
from fedtrip.rounds.check import check_it_is_as_said, reason_to_refuse
from fedtrip.rounds.record import RoundRecord, finite_scores
from fedtrip.rounds.state import (
    COMBINING,
    OPTIMIZER,
    FederationState,
    RoundDetails,
    RoundDone,
    RunEnded,
    TooFewClients,
    part_of,
    prefixed,
)
from fedtrip.rounds.tally import Tally
from fedtrip.training.client import Job, Outcome, codec_streams
from fedtrip.vectors import Vectors, copied, is_finite, size_in_bytes


@dataclass(frozen=True)
class Evaluation:
    """How good the model is after a round; empty where it was not evaluated."""

    scores: Mapping[str, float]
    """on the test set"""
    validation: Mapping[str, float]
    clients: Mapping[str, Mapping[str, float | int | None]]
    """on the clients' own test sets"""


NOT_EVALUATED = Evaluation({}, {}, {})


class Turn:
    """One round under way: what was sent, what came back, what it cost."""

    def __init__(
        self, federation: Federation, engine: Engine, state: FederationState, chosen: tuple[int, ...], min_clients: int
    ) -> None:
        self._federation, self._engine, self._chosen, self._min_clients = federation, engine, chosen, min_clients
        self._travelling = state.travelling
        self._began, self._t, self._before = time.perf_counter(), state.round + 1, state.server
        self._faults: Faults = federation.rules.attack.faults(federation.experiment.seed, self._t, chosen)
        self._memories = {client: state.memories.get(client) for client in chosen}
        self._used: tuple[int, ...] = ()
        self._details = RoundDetails(())
        self._refused: dict[int, str] = {}
        self._received: Vectors = {}
        self._reference: Vectors = {}
        """what the clients were sent last under each name in this round: what their differences are to"""
        self._waiting: list[tuple[Upload, Memory]] = []
        """what clients sent while attackers wait for all of it, and the memories that belong to it"""
        self._bytes_down = self._bytes_up = self._macs = self._wire_down = self._wire_up = self._absent = 0

    def exchange(self, server: Server) -> Tally | None:
        """Send, have the clients work, and add up what they send back; None if the round is to change nothing."""
        method, rules, first = self._federation.method, self._federation.rules, server.exchange == 0
        self._received = self._cut(_as_sent(method.broadcast(server)))
        self._reference = {**self._reference, **self._received}
        asked = [k for k in self._chosen if k not in self._refused and (first or k not in self._faults.dropped)]
        jobs = [
            Job(client, self._t, server.exchange, self._received, self._memories[client])
            for client in asked
            if client not in self._faults.dropped
        ]
        self._bytes_down += len(asked) * size_in_bytes(self._received)
        expected, keep_all = self._cut(method.expected(server)), self._t in self._federation.experiment.snapshot
        tally = Tally(method, rules.combine, self._reference, expected, keep_all=keep_all)
        outcomes, present = self._engine.work(jobs), [job.client for job in jobs]
        attackers = Attackers.among(present, self._federation, self._t, server.exchange, self._reference, expected)
        used = [job.client for job in jobs if self._take(job, outcomes, expected, attackers, tally)]
        self._used = (*used, *self._take_waiting(attackers, expected, tally))
        self._details = RoundDetails(tuple(self._whole(upload, server) for upload in tally.kept) if keep_all else ())
        self._check_enough(tally.count, len(jobs))
        return tally if self._can_be_combined(tally.count) else None

    def _take(
        self, job: Job, outcomes: Iterator[Outcome], expected: Vectors, attackers: Attackers, tally: Tally
    ) -> bool:
        """Add the next client's upload, if it can be used. None is held here while the next client is at work, unless
        attackers wait for all of them."""
        outcome = next(outcomes)
        if outcome.client != job.client:
            raise RuntimeError("the engine does not answer in the order of the jobs, which decides the sums' bits")
        upload = self._accepted(outcome, job.exchange, expected)
        if upload is None:
            return False
        memory = outcome.memory.copied() if outcome.is_borrowed else outcome.memory
        if attackers.wait:
            held = replace(upload, vectors=copied(upload.vectors)) if outcome.is_borrowed else upload
            self._waiting.append((held, memory))
            return False
        sent = attackers.sent(upload)
        if sent is not upload and self._checked(sent, expected) is None:
            return False
        tally.add(sent, is_borrowed=outcome.is_borrowed)
        self._memories[outcome.client] = memory
        return True

    def _take_waiting(self, attackers: Attackers, expected: Vectors, tally: Tally) -> Iterator[int]:
        """Add what was held until attackers had seen it, in client order; whose was used."""
        waiting, self._waiting = self._waiting, []
        uploads = attackers.sent_together([upload for upload, _ in waiting])
        for upload, (_, memory) in zip(uploads, waiting, strict=True):
            if self._checked(upload, expected) is not None:
                tally.add(upload)
                self._memories[upload.client] = memory
                yield upload.client

    def _cut(self, vectors: Vectors) -> Vectors:
        """What travels of some vectors."""
        return self._travelling.cut(vectors) if self._travelling else vectors

    def _whole(self, upload: Upload, server: Server) -> Upload:
        """An upload with the server's own values where the client's never travelled."""
        return replace(upload, vectors=self._travelling.whole(upload.vectors, server.model, {}))

    def _accepted(self, outcome: Outcome, exchange: int, expected: Vectors) -> Upload | None:
        """A client's upload, decoded and checked; None if it cannot be used, and the reason is noted."""
        rules, experiment, client = self._federation.rules, self._federation.experiment, outcome.client
        self._bytes_up += size_in_bytes(outcome.upload)
        self._wire_down, self._wire_up = self._wire_down + outcome.wire_down, self._wire_up + outcome.wire_up
        self._absent += outcome.problem is not None
        self._macs += outcome.macs
        if outcome.problem is not None:
            self._refused[client] = outcome.problem
            return None
        self._macs += sum(vector.numel() for vector in expected.values())  # its averaging
        self._macs += rules.upload_codec.server_operations(expected)
        try:
            streams = codec_streams(experiment.seed, self._t, client, exchange)
            upload = rules.upload_codec.decode(outcome.upload, self._received, expected, streams)
        except ValueError as problem:
            self._refused[client] = one_line(str(problem))
            return None
        if not outcome.remote:
            check_it_is_as_said(experiment.method.name, client, upload, expected)
        if client in self._faults.spoiled:
            upload = self._faults.spoiled[client](upload)
        return self._checked(Upload(client, outcome.samples, upload), expected)

    def _checked(self, upload: Upload, expected: Vectors) -> Upload | None:
        reason = reason_to_refuse(upload.vectors, expected)
        if reason is None:
            return upload
        self._refused[upload.client] = one_line(reason)  # a node may call its vectors what it likes
        return None

    def _check_enough(self, used: int, jobs: int) -> None:
        """End the round, or the run, if nobody or too few sent something usable."""
        reasons = "; ".join(f"client {client}: {reason}" for client, reason in sorted(self._refused.items()))
        if used < self._min_clients and (used or self._absent):  # all refused for what they sent: it diverged
            raise TooFewClients(
                f"round {self._t}: {used} of {len(self._chosen)} clients sent a usable upload, min-clients is "
                f"{self._min_clients} ({reasons})"
            )
        honest = set(self._chosen) - set(self._faults.dropped) - self._faults.spoiled.keys()
        if not used and honest:
            what = "; ".join(sorted(set(self._refused.values())))
            raise RunEnded(f"none of the {jobs} uploads could be used ({what})", self._record(NOT_EVALUATED))

    def _can_be_combined(self, used: int) -> bool:
        """Whether the rule of combining has as many uploads as it needs; otherwise all are left out, by its name.

        Where clients are away, and not only made to fail, the round is tried again.
        """
        needed = self._federation.rules.combine.fewest
        if 0 < used < needed:
            why = f"combine '{self._federation.experiment.combine}' needs {needed} uploads in a round; usable: {used}"
            if self._absent:
                raise TooFewClients(f"round {self._t}: {why}")
            self._refused |= dict.fromkeys(self._used, why)
            self._used = ()
        return used >= needed

    def server_step(self, server: Server, tally: Tally) -> Server:
        """Combine, let the method fold it in, and step."""
        rules, seed = self._federation.rules, self._federation.experiment.seed
        rng = stream(seed, f"combining{self._federation.secret}", self._t, server.exchange)
        self._macs += rules.combine.further_operations(tally.count) * tally.numbers
        uploads, buffers, combining = tally.combined(part_of(server.state, COMBINING), rng)
        if self._travelling:  # what never travels is on the server as it was in the beginning
            totals = self._travelling.whole(uploads.totals, {"w": uploads.count * server.w.double()}, {})
            uploads = replace(uploads, means=self._travelling.whole(uploads.means, server.model, {}), totals=totals)
            buffers = self._travelling.whole(buffers, server.model, {})
        after = rules.method.aggregate(server, uploads)
        after = replace(after, model={**after.model, **buffers}, state=after.state | prefixed(COMBINING, combining))
        if server.exchange == rules.method.exchanges - 1 and not rules.server_optimizer.is_identity:
            optimizer = part_of(server.state, OPTIMIZER)
            w, optimizer = rules.server_optimizer(self._before.w.double(), after.w.double(), optimizer)
            after = after.updated(w=w, **prefixed(OPTIMIZER, optimizer))
        if not is_finite(after.model):
            raise RunEnded("the server's step gave a global model that is not finite", self._record(NOT_EVALUATED))
        return after

    @property
    def memories(self) -> Mapping[int, Memory]:
        """What the clients whose upload was used keep after this round."""
        return {client: self._memories[client] for client in self._used}

    def done(self, server: Server, evaluation: Evaluation) -> RoundDone:
        """What the round resulted in."""
        rules = self._federation.rules
        if self._used:
            method = rules.method
            once = method.server_operations + rules.server_optimizer.operations
            self._macs += (once + method.server_operations_each * len(self._used)) * server.w.numel()
        memories = self.memories
        return RoundDone(server, memories, self._record(evaluation, memories), self._details)

    def _record(self, evaluation: Evaluation, memories: Mapping[int, Memory] | None = None) -> RoundRecord:
        rules, experiment = self._federation.rules, self._federation.experiment
        return RoundRecord(
            round=self._t,
            scores=finite_scores(evaluation.scores),
            clients=self._chosen,
            bytes_down=self._bytes_down,
            bytes_up=self._bytes_up,
            macs=self._macs,
            seconds=time.perf_counter() - self._began,
            refused=self._refused,
            client_memory=max((memory.size_in_bytes() for memory in (memories or {}).values()), default=0),
            dropped=self._faults.dropped,
            unchanged=memories is not None and not memories and rules.combine.fewest > 0,
            wire_down=self._wire_down,
            wire_up=self._wire_up,
            validation=finite_scores(evaluation.validation),
            client_scores=evaluation.clients,
            epsilon=rules.combine.spent(self._t, experiment.plan),
        )


def _as_sent(vectors: Vectors) -> Vectors:
    """What travels is float32 (and integers), whatever precision the server computes in."""
    return {name: v.to(torch.float32) if v.is_floating_point() else v for name, v in vectors.items()}
