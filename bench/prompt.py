"""How long `fedtrip compare` takes from the prompt: six methods, three trials each, on digits, with two workers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

METHODS = "fedtrip,fedavg,fedprox,slowmo,moon,feddyn"


def seconds_of_compare(repeats: int, rounds: int | None = None) -> list[float]:
    """Of each repetition, from the start of the interpreter to its end; with fewer rounds only to try it out."""
    return [_once(rounds) for _ in range(repeats)]


def _once(rounds: int | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedtrip", "compare", "--dataset", "digits", "--methods", METHODS]
        command += ["--trials", "3", "--workers", "2", "--quiet", "--out", f"{folder}/compare"]
        command += [] if rounds is None else ["--rounds", str(rounds)]
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began
