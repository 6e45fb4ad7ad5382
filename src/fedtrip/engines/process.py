"""A worker process: started afresh (never forked, so neither a user's script nor its threads are repeated in it),
spoken to over a pipe, and gone when its parent is."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from fedtrip.engines.shared import anonymous_file
from fedtrip.errors import UserError

_BOOT = "from fedtrip.engines.process import child; child({connection}, {beginning})"
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc gives large freed blocks back to the system at once; fetching them again costs a tenth of a training step
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


class WorkerLost(RuntimeError):
    """The process ended without an answer."""


class WorkerProcess:
    """A process that runs `service(connection, *arguments)`, with `service` given as `module:function`."""

    def __init__(self, service: str, *arguments: Any, descriptors: Sequence[int] = ()) -> None:
        self.connection, theirs = Pipe()
        beginning = _in_a_file(pickle.dumps((sys.path, cloudpickle.dumps((service, arguments)))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT.format(connection=theirs.fileno(), beginning=beginning)],
                pass_fds=(theirs.fileno(), beginning, *descriptors),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                env={**os.environ, **_ENVIRONMENT},
            )
        finally:
            theirs.close()
            os.close(beginning)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Any, *, by_value: bool = False) -> None:
        """Send a message; `by_value` if it holds objects of a user's own classes."""
        try:
            self.connection.send_bytes(cloudpickle.dumps(message) if by_value else pickle.dumps(message))
        except (BrokenPipeError, ConnectionResetError):
            raise WorkerLost(self._how_it_ended()) from None

    def receive(self) -> Any:
        """The next message. An exception of the service is raised here."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, ConnectionResetError):
            raise WorkerLost(self._how_it_ended()) from None
        if kind == "user error":
            raise UserError(content)
        if kind == "error":
            raise RuntimeError(f"a worker process failed:\n{content}")
        return content

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self.connection.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def child(descriptor: int, beginning: int) -> None:
    """What a worker process does: serve until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    connection = Connection(descriptor)
    try:
        with os.fdopen(beginning, "rb") as file:
            sys.path[:], contents = pickle.load(file)
        service, arguments = cloudpickle.loads(contents)  # now that a user's own modules can be found

        import torch

        torch.set_num_threads(1)
        module, _, function = service.partition(":")
        getattr(importlib.import_module(module), function)(connection, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone, or has no more work
    except UserError as problem:
        answer(connection, str(problem), kind="user error")
    except Exception:
        answer(connection, traceback.format_exc(), kind="error")


def request(connection: Connection) -> Any:
    """In the child: the parent's next message."""
    return pickle.loads(connection.recv_bytes())


def answer(connection: Connection, content: Any, kind: str = "answer") -> None:
    """In the child: send something to the parent."""
    connection.send((kind, content))


def _in_a_file(contents: bytes) -> int:
    """The contents in an anonymous file: a pipe would make the parent wait until the new process reads it."""
    descriptor = anonymous_file()
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(contents)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _has_descriptor(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True
