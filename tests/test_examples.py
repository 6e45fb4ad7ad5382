"""The examples run as they are, each in a folder of its own; one whose extra is not installed is skipped."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = 300  # seconds, on a machine that is busy with something else


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_it_runs(example, tmp_path):
    imported = re.findall(r"^(?:import|from) (\w+)", example.read_text(encoding="utf-8"), re.MULTILINE)
    missing = [name for name in imported if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    ended = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip(), "an example shows what it did"
