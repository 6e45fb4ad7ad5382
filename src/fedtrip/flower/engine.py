"""The engine whose clients are the nodes of a Flower grid: one message for each client and exchange."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedtrip.engines.serial import SerialEngine
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation
from fedtrip.flower.records import (
    NEVER,
    BadRecord,
    RemoteJob,
    RunIdentity,
    identity_fields,
    job_content,
    read_announcement,
    read_outcome,
    serialised_size,
)
from fedtrip.methods.interface import Memory
from fedtrip.printable import one_line
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Question

PATIENCE = 60.0
"""Seconds that are waited for nodes: at the start for all clients', later only if a round has too few."""
ANNOUNCING = 120.0
"""Seconds that a new node has to say which client it is; if it does not, it is asked again in the next round."""
EXPIRING = 30.0
"""Seconds for which Flower keeps a message that nobody waits for any more."""
FORGETTING = 30.0
"""Seconds that the nodes have to forget a finished run; one that is away keeps its memory of it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tolerance:
    """How long a round waits, and how many clients it needs."""

    round_timeout: float = 3600.0
    """seconds for a client's answer in one exchange"""
    min_clients: int = 1
    """usable uploads without which a round does not count"""

    def __post_init__(self) -> None:
        if not self.round_timeout > 0:
            raise UserError(f"round-timeout is {self.round_timeout}; accepted: seconds above 0")
        if self.min_clients < 1:
            raise UserError(f"min-clients is {self.min_clients}; accepted: at least 1")


class FlowerEngine:
    """Clients on the nodes of a grid; the evaluation is here, where the test set is."""

    def __init__(
        self,
        grid: Grid,
        federation: Federation,
        prepared: PreparedModel,
        key: str,
        tolerance: Tolerance,
        stop: threading.Event,
    ) -> None:
        experiment, dataset = federation.experiment, federation.dataset
        self._grid, self._tolerance, self._stop = grid, tolerance, stop
        self._run = RunIdentity(key, experiment.to_toml(), dataset.classes, str(dataset.inputs))
        self._here = SerialEngine(federation, prepared)
        self._clients = experiment.clients or 0
        self._announced: dict[int, tuple[int, int] | None] = {}
        """client and samples of every connected node; None for one that could not say"""
        self._useless: dict[int, str] = {}
        """why these nodes, of which nobody knows the client, cannot take part"""
        self._started_from: dict[int, int] = {}
        """the round of the memory that each client's round under way started from"""
        self._wait_for(range(self._clients), self._clients)

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        wanted = [job.client for job in jobs]
        self._wait_for(wanted, min(self._tolerance.min_clients, len(jobs)))
        nodes = self._nodes()
        remote = {job.client: self._remote(job) for job in jobs}
        contents = {client: job_content(remote[client]) for client in wanted if client in nodes}
        answers = self._ask(
            {nodes[client]: content for client, content in contents.items()}, "train", self._tolerance.round_timeout
        )
        for client in wanted:
            if client not in nodes:
                yield self._without(client, None, self._why_absent())
                continue
            sent = serialised_size(contents[client])
            outcome = self._outcome(remote[client], nodes[client], answers.get(nodes[client]))
            yield replace(outcome, wire_down=sent)

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        return self._here.score(questions)

    def close(self) -> None:
        """Nothing to free: the grid is Flower's."""

    def forget(self) -> None:
        """The run is finished: tell the nodes that are there."""
        self._ask({node: self._identity() for node in self._nodes().values()}, "query.forget", FORGETTING)

    def _why_absent(self) -> str:
        """Why a client has no node, as far as that is known: one that is there may have failed to say who it is."""
        known = [f"node {node} is, but cannot take part: {why}" for node, why in sorted(self._useless.items())]
        return "; ".join(["its node is not connected", *known])

    def _remote(self, job: Job) -> RemoteJob:
        last = job.memory.last_round
        if job.exchange == 0:  # in later exchanges the memory is that of the round under way
            self._started_from[job.client] = NEVER if last is None else last
        memory_round = self._started_from[job.client]
        return RemoteJob(self._run, job.client, job.round, job.exchange, memory_round, job.received)

    def _outcome(self, job: RemoteJob, node: int, answer: Message | None) -> Outcome:
        if answer is None:
            return self._without(job.client, node, f"no answer within {self._tolerance.round_timeout:g} s")
        if answer.has_error():
            return self._without(job.client, node, f"error {answer.error.code}: {answer.error.reason}")
        try:
            announced = self._announced[node]
            assert announced is not None
            outcome = read_outcome(answer.content, job, announced[1])
        except BadRecord as problem:
            return self._without(job.client, node, f"its answer cannot be read: {problem}")
        return replace(outcome, wire_up=serialised_size(answer.content), remote=True)

    def _without(self, client: int, node: int | None, why: str) -> Outcome:
        told = one_line(why)
        log.warning("client %d%s: %s", client, "" if node is None else f" on node {node}", told)
        return Outcome(client, 0, {}, Memory(), 0, problem=told)

    def _wait_for(self, clients: Iterable[int], enough: int) -> None:
        """Wait, but not for ever, until so many of these clients are there."""
        wanted, deadline = set(clients), time.monotonic() + min(PATIENCE, self._tolerance.round_timeout)
        while True:
            self._meet_nodes()
            here = wanted & self._nodes().keys()
            if len(here) >= enough or time.monotonic() > deadline:
                return
            log.info("%d of %d clients are connected; waiting for %d", len(here), len(wanted), enough)
            self._pause(1)

    def _meet_nodes(self) -> None:
        """Ask nodes that are new which client they are; forget those that are gone."""
        connected = set(self._grid.get_node_ids())
        self._announced = {node: said for node, said in self._announced.items() if node in connected}
        self._useless = {node: why for node, why in self._useless.items() if node in connected}
        new = connected - self._announced.keys()
        answers = self._ask({node: self._identity() for node in new}, "query.announce", ANNOUNCING)
        for node in sorted(new - answers.keys()):
            log.warning("node %d has not said within %g s which client it is", node, ANNOUNCING)
        for node, answer in sorted(answers.items()):
            self._announced[node] = None
            try:
                if answer.has_error():
                    raise BadRecord(str(answer.error.reason))
                client, samples = read_announcement(answer.content)
                if client in self._nodes():
                    raise BadRecord(f"it says it is client {client}, which node {self._nodes()[client]} is already")
                self._announced[node] = (client, samples)
                log.info("node %d is client %d with %d samples", node, client, samples)
            except BadRecord as problem:
                self._useless[node] = one_line(str(problem))
                log.error("node %d cannot take part: %s", node, self._useless[node])

    def _nodes(self) -> dict[int, int]:
        """The node of each client that is there."""
        return {said[0]: node for node, said in self._announced.items() if said is not None}

    def _identity(self) -> RecordDict:
        return RecordDict({"run": ConfigRecord(identity_fields(self._run))})

    def _ask(self, contents: dict[int, RecordDict], kind: str, timeout: float) -> dict[int, Message]:
        """Send each node its message and collect the answers that come in time; nobody takes a later one."""
        if not contents:
            return {}
        # it expires after we have stopped waiting, so that what is told is our reason and not Flower's
        messages = [Message(content, node, kind, ttl=timeout + EXPIRING) for node, content in contents.items()]
        waiting = set(self._grid.push_messages(messages)) - {None}
        nodes = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        answers: dict[int, Message] = {}
        began = time.monotonic()
        while waiting and time.monotonic() - began < timeout:
            for answer in self._grid.pull_messages(waiting):
                asked = answer.metadata.reply_to_message_id
                waiting.discard(asked)
                if asked in nodes:
                    answers[nodes[asked]] = answer
            if waiting:
                self._pause(min(1.0, 0.1 + (time.monotonic() - began) / 10))  # more patient the longer it takes
        return answers

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise RuntimeError("the run was stopped")
