"""What travels, as Flower's records: a job and its outcome, each vector one array of an array record."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedtrip.errors import UserError
from fedtrip.methods.interface import Memory
from fedtrip.training.client import Job, Outcome
from fedtrip.vectors import Vectors

ACCEPTED = ("float32", "int64", "uint8")
"""Types of what travels: vectors, a module's integer buffers, and what a codec makes of vectors."""
NEVER = 0
"""The memory's round of a client that never took part; the first round is 1."""


class BadRecord(UserError):
    """A message whose content is not what it should be."""


@dataclass(frozen=True)
class RunIdentity:
    """What every message of a run says: which run, and all that a node needs to do its client's work."""

    key: str
    """names the run on the nodes' disks; the same for a run that was resumed, which Flower's own number is not"""
    experiment: str
    """the complete experiment as TOML"""
    classes: int
    inputs: str
    """what a sample's inputs are, in words: a node's own must be the same"""


@dataclass(frozen=True)
class RemoteJob:
    """A job as a node sees it: the memory is the node's own, and `memory_round` says which one to start from."""

    run: RunIdentity
    client: int
    round: int
    exchange: int
    memory_round: int
    received: Vectors

    def with_memory(self, memory: Memory) -> Job:
        """The job with the memory that the node has kept."""
        return Job(self.client, self.round, self.exchange, self.received, memory)


@dataclass(frozen=True)
class KeptElsewhere(Memory):
    """A client's memory that stays on its node: here only its round and its size are known."""

    nbytes: int = 0

    def size_in_bytes(self) -> int:
        return self.nbytes


def to_arrays(vectors: Vectors) -> ArrayRecord:
    """Named vectors as an array record, one to one."""
    return ArrayRecord({name: Array(vector.detach().contiguous().numpy()) for name, vector in vectors.items()})


def from_arrays(record: ArrayRecord) -> Vectors:
    """The named vectors of an array record; `BadRecord` if one is not exactly what `to_arrays` makes."""
    return {name: _vector(name, array) for name, array in record.items()}


def _vector(name: str, array: Array) -> torch.Tensor:
    """An array's numbers. Its size is checked before memory is taken: a header of a few bytes can promise any size."""
    stream = BytesIO(array.data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("unknown version")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as problem:
        raise BadRecord(f"'{name}' is not a NumPy array: {problem}") from None
    body = memoryview(array.data)[stream.tell() :]
    if str(dtype) not in ACCEPTED or by_columns or dtype.hasobject:
        raise BadRecord(f"'{name}' is of type {dtype}; accepted: {', '.join(ACCEPTED)}")
    if any(length < 0 for length in shape) or prod(shape) * dtype.itemsize != len(body):
        raise BadRecord(f"'{name}' has {len(body)} bytes, which is not the size of {shape} numbers of {dtype}")
    return torch.from_numpy(np.frombuffer(body, dtype=dtype).reshape(shape).copy())


def job_content(job: RemoteJob) -> RecordDict:
    """The content of the message that asks a client for its part of an exchange."""
    described = {
        **identity_fields(job.run),
        "client": job.client,
        "round": job.round,
        "exchange": job.exchange,
        "memory-round": job.memory_round,
    }
    return RecordDict({"job": ConfigRecord(described), "received": to_arrays(job.received)})


def read_job(content: RecordDict) -> RemoteJob:
    """The job that `job_content` wrote."""
    fields = _config(content, "job")
    return RemoteJob(
        run=read_identity(fields),
        client=_number(fields, "client"),
        round=_number(fields, "round"),
        exchange=_number(fields, "exchange"),
        memory_round=_number(fields, "memory-round"),
        received=_arrays(content, "received"),
    )


def outcome_content(outcome: Outcome) -> RecordDict:
    """The content of a node's answer: the upload, and the memory's size instead of the memory."""
    described: dict[str, Any] = {
        "client": outcome.client,
        "samples": outcome.samples,
        "macs": outcome.macs,
        "memory-bytes": outcome.memory.size_in_bytes(),
    }
    return RecordDict({"outcome": ConfigRecord(described), "upload": to_arrays(outcome.upload)})


def read_outcome(content: RecordDict, asked: RemoteJob, samples: int) -> Outcome:
    """The outcome that `outcome_content` wrote; `BadRecord` if it is of another client than the one asked."""
    fields = _config(content, "outcome")
    if _number(fields, "client") != asked.client:
        raise BadRecord(f"the answer is of client {fields['client']}")
    if _number(fields, "samples") != samples:
        raise BadRecord(f"it has {fields['samples']} samples, but announced {samples}")
    memory = KeptElsewhere(last_round=asked.round, nbytes=_number(fields, "memory-bytes"))
    return Outcome(asked.client, samples, _arrays(content, "upload"), memory, _number(fields, "macs"))


def identity_fields(run: RunIdentity) -> dict[str, Any]:
    """The run's identity as fields of a config record."""
    return {
        "run": run.key,
        "experiment": run.experiment,
        "classes": run.classes,
        "inputs": run.inputs,
    }


def read_identity(fields: dict[str, Any]) -> RunIdentity:
    """The identity that `identity_fields` wrote."""
    key, experiment, inputs = (fields.get(name) for name in ("run", "experiment", "inputs"))
    if not (isinstance(key, str) and isinstance(experiment, str) and isinstance(inputs, str)):
        raise BadRecord("the message does not say which run it is of")
    return RunIdentity(key, experiment, _number(fields, "classes"), inputs)


def read_announcement(content: RecordDict) -> tuple[int, int]:
    """Client index and number of samples of a node."""
    fields = _config(content, "node")
    client, samples = _number(fields, "client"), _number(fields, "samples")
    if samples < 1:
        raise BadRecord(f"it has {samples} samples")
    return client, samples


def serialised_size(content: RecordDict) -> int:
    """The bytes of all objects that Flower makes of this content; without HTTP's and TLS' own."""
    return _size(content)


def _size(node: Any) -> int:
    return len(node.deflate()) + sum(_size(child) for child in (node.children or {}).values())


def _config(content: RecordDict, name: str) -> dict[str, Any]:
    record = content.get(name)
    if not isinstance(record, ConfigRecord):
        raise BadRecord(f"the message has no '{name}'")
    return dict(record)


def _arrays(content: RecordDict, name: str) -> Vectors:
    record = content.get(name)
    if not isinstance(record, ArrayRecord):
        raise BadRecord(f"the message has no '{name}'")
    return from_arrays(record)


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRecord(f"'{name}' is {value!r}; accepted: an integer from 0")
    return value
