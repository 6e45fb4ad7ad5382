"""How long until the first round of `fedtrip run` is over, beyond what `import torch` alone takes.

Both are whole processes, started in turns; the round is over when the progress says so. Run it when nothing else runs:

    .venv/bin/python -m bench.first_round [TURNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

TURNS = 15


def seconds_to_line(command: list[str], expected: str) -> float:
    """From the start of a process to the first line on its stderr, which is to hold this."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        seconds = time.perf_counter() - began
        if expected not in line:
            raise SystemExit(f"{' '.join(command)}: {line}{process.stderr.read()}")
        return seconds


def seconds_to_import_torch() -> float:
    """Until a process that does nothing else has imported PyTorch."""
    return seconds_to_line([sys.executable, "-c", "import sys, torch; print('done', file=sys.stderr)"], "done")


def seconds_to_first_round() -> float:
    """Until the line of progress that follows the first round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedtrip", "run", "--rounds", "1", "--out", f"{folder}/run"]
        return seconds_to_line(command, ": 1/1 ")


def main() -> None:
    """Print the medians of both and of their differences."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    seconds_to_import_torch(), seconds_to_first_round()  # the files of both are in memory then
    torch, run = zip(*((seconds_to_import_torch(), seconds_to_first_round()) for _ in range(turns)), strict=True)
    beyond = [later - sooner for sooner, later in zip(torch, run, strict=True)]
    for what, values in (("import torch", torch), ("to the end of round 1", run), ("difference", beyond)):
        print(f"{what:<22} {statistics.median(values):.2f} s  ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
