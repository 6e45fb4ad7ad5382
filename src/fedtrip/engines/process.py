"""A worker process: started afresh (never forked, so neither a user's script nor its threads are repeated in it),
spoken to over a pipe, and gone when its parent is."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

from fedtrip.engines.shared import anonymous_file
from fedtrip.errors import UserError, is_out_of_memory

_BOOT = "import sys; sys.path.append({home!r}); from fedtrip.engines.process import child; child({theirs}, {beginning})"
_HOME = str(Path(__file__).parents[2])
"""Where this package lies. A worker looks nowhere else for it: not in the working folder, where Python would first."""
_PR_SET_PDEATHSIG = 1
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc gives large freed blocks back to the system at once; fetching them again costs a tenth of a training step
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


TICK = 1.0
"""Seconds between two looks at whether a process makes progress."""
SECONDS_WITHOUT_PROGRESS = 120.0
"""A process that has work and uses no processor time for so long hangs; one that is merely slow uses some."""


class WorkerLost(RuntimeError):
    """The process ended without an answer, or will never give one."""


def lost_for_good(what: str) -> UserError:
    """The error after the last attempt: nothing that could be tried again is left."""
    return UserError(f"{what}; accepted: fewer workers, or a smaller model or batch_size, if memory is what lacks")


class WorkerProcess:
    """A process that runs `service(connection, *arguments)`, with `service` given as `module:function`."""

    def __init__(self, service: str, *arguments: Any, descriptors: Sequence[int] = ()) -> None:
        self.connection, theirs = Pipe()
        beginning = _in_a_file(pickle.dumps((sys.path, cloudpickle.dumps((service, arguments)))))
        boot = _BOOT.format(home=_HOME, theirs=theirs.fileno(), beginning=beginning)
        # The terminal's Ctrl-C goes to all processes, also to one that is just starting: it is the parent's to handle.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", boot],
                pass_fds=(theirs.fileno(), beginning, *descriptors),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                env={**os.environ, **_ENVIRONMENT},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            os.close(beginning)
        self._seen: float | None = None
        self._last_look, self._looks_without_progress = time.monotonic(), 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Any, *, by_value: bool = False) -> None:
        """Send a message; `by_value` if it holds objects of a user's own classes."""
        self._looks_without_progress = 0
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
        self._looks_without_progress = 0
        if kind == "lost":
            raise WorkerLost(content)
        if kind == "user error":
            raise UserError(content)
        if kind == "error":
            raise RuntimeError(f"a worker process failed:\n{content}")
        return content

    def check_progress(self) -> None:
        """Of a process that has work to do: look at it now and then, and find out if it hangs.

        Looks are counted, not seconds: where this process was itself stopped (Ctrl-Z), no time has passed for it.
        """
        now = time.monotonic()
        if now - self._last_look < TICK:
            return
        self._last_look, seen = now, _processor_time(self.pid)
        hangs = seen is not None and seen == self._seen
        self._seen, self._looks_without_progress = seen, self._looks_without_progress + 1 if hangs else 0
        if self._looks_without_progress * TICK >= SECONDS_WITHOUT_PROGRESS:
            raise WorkerLost(f"it made no progress for {SECONDS_WITHOUT_PROGRESS:.0f} s")

    def terminate(self) -> None:
        """Ask the process to end by itself, at once."""
        self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, but not for longer."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(0.0, seconds))

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
    _end_with_parent()
    connection = Connection(descriptor)
    try:
        with os.fdopen(beginning, "rb") as file:
            sys.path[:], contents = pickle.load(file)
        service, arguments = cloudpickle.loads(contents)  # now that a user's own modules can be found
        del contents  # it may hold a model

        import torch

        torch.set_num_threads(1)
        module, _, function = service.partition(":")
        getattr(importlib.import_module(module), function)(connection, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone, or has no more work
    except UserError as problem:
        answer(connection, str(problem), kind="user error")
    except Exception as problem:
        if is_out_of_memory(problem):
            answer(connection, "it ran out of memory", kind="lost")
        else:
            answer(connection, traceback.format_exc(), kind="error")


def request(connection: Connection) -> Any:
    """In the child: the parent's next message."""
    return pickle.loads(connection.recv_bytes())


def answer(connection: Connection, content: Any, kind: str = "answer") -> None:
    """In the child: send something to the parent."""
    connection.send((kind, content))


def _end_with_parent() -> None:
    """Have Linux end this process with its parent, also in the middle of work; elsewhere its next answer fails."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _processor_time(pid: int) -> float | None:
    """Processor time that a process has used, in ticks of its clock; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return float(fields[11]) + float(fields[12])


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
