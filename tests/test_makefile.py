"""What the commands of the Makefile would do on a fresh clone, as make itself tells it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DEVELOPMENT = ("sklearn", "flwr", "ray", "tensorboard", "selenium", "hypothesis", "pytest", "mypy", "xdist")
"""What only the extras bring, as it is imported."""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def planned(folder: Path, target: str) -> list[str]:
    """The commands that `make TARGET` would run in a clone without an environment."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    told = subprocess.run(
        ["make", "--dry-run", target], cwd=folder, env=clean, capture_output=True, text=True, check=True
    )
    return told.stdout.splitlines()


def test_the_demo_installs_what_a_run_needs_and_no_more_and_shows_it(tmp_path: Path) -> None:
    commands = planned(tmp_path, "demo")
    (install,) = [command for command in commands if "pip install" in command]
    assert install.endswith("--constraint constraints.txt --editable .")
    assert "--quiet" not in install
    assert any("minutes" in command and "GB" in command for command in commands if command.startswith("echo"))
    assert "fedtrip compare" in commands[-1]


@pytest.mark.parametrize("target", ["test", "test-slow"])
def test_the_tests_run_on_all_cores_that_may_be_used(tmp_path: Path, target: str) -> None:
    commands = planned(tmp_path, target)
    assert any("--editable '.[dev]'" in command for command in commands)
    (tests,) = [command for command in commands if "pytest" in command]
    assert f"-n {len(os.sched_getaffinity(0))} " in f"{tests} "


def test_a_comparison_needs_nothing_that_the_demo_does_not_install(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules.update(dict.fromkeys({DEVELOPMENT}))  # whoever imports one of them gets an ImportError
from fedtrip.cli import main
main()
"""
    small = ("--methods", "fedtrip,fedavg", "--trials", "1", "--rounds", "2", "--samples-per-client", "20")
    done = subprocess.run(
        [sys.executable, "-c", program, "compare", *small, "--out", "demo"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "report.html").is_file()
