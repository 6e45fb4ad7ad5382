"""How much a command brings along before it does anything: `bench/first_round.py` measures what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("sklearn", "pandas", "matplotlib", "plotly", "scipy.stats", "requests", "jinja2", "flwr", "ray")

PROGRAM = """
import sys
from fedtrip.cli import main

sys.argv = ["fedtrip", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code
print("loaded:", *(name for name in {heavy} if name in sys.modules))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_brings_no_library_along_that_it_does_not_use(tmp_path: Path, workers: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), "run", "--rounds", "1", "--workers", str(workers)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"
