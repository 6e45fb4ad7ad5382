"""The others' environments, each of its own under build/race, with the same torch as ours."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "build" / "race"


@dataclass(frozen=True)
class Peer:
    """A simulator: what is installed, and the program that runs the task on it."""

    title: str
    program: str
    requirement: str | None = None
    """None for ours, which is here"""

    @property
    def python(self) -> Path:
        """The interpreter that runs it."""
        return Path(sys.executable) if self.requirement is None else FOLDER / self.title / "bin" / "python"


PEERS = (
    Peer("fedtrip", "run_fedtrip.py"),
    Peer("flwr", "run_flower.py", "flwr[simulation]==1.41.0"),
    Peer("pfl", "run_pfl.py", "pfl[pytorch]==0.6.0"),
)


def install(peer: Peer) -> str | None:
    """Make its environment unless it is there; what went wrong, in one line."""
    if peer.requirement is None:
        return None
    made = FOLDER / peer.title / peer.requirement.partition("==")[2]
    if made.exists():
        return None
    constraints = FOLDER / "constraints.txt"
    constraints.write_text("".join(f"{name}=={metadata.version(name)}\n" for name in ("torch", "numpy")))
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(FOLDER / peer.title)],
        [str(peer.python), "-m", "pip", "install", "--quiet", "-c", str(constraints), "torch", peer.requirement],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return problem(done.stderr, "ERROR")
    made.touch()
    return None


def version(peer: Peer) -> str:
    """What is installed."""
    code = f"from importlib import metadata; print(metadata.version({peer.title!r}))"
    return subprocess.run([peer.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def problem(output: str, wanted: str) -> str:
    """The first line that says what went wrong, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if wanted in line), lines[-1])
