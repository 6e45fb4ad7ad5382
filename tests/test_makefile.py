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

NATIVE = Path("src/fedtrip/native/libfedtrip_native.so")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def planned(folder: Path, target: str) -> list[str]:
    """The commands that `make TARGET` would run in a clone without an environment."""
    clone(folder)
    told = make(folder, "--dry-run", target)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


def clone(folder: Path) -> None:
    """What make looks at in a clone, with one native source."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "CMakeLists.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / NATIVE.parent / "engine").mkdir(parents=True)
    (folder / NATIVE.parent / "engine" / "one.cpp").touch()


def make(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "FEDTRIP"))}
    return subprocess.run(
        ["make", *map(str, arguments)], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A clone with an environment whose programs only say that they were called, and whether the library must be there.

    cmake makes a library of its only argument that matters, the folder.
    """
    clone(tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports", "pytest", "fedtrip"):
        (programs / name).write_text(f'#!/bin/sh\necho "called {name}, native ${{FEDTRIP_NATIVE:-optional}}"\n')
    (programs / "cmake").write_text(f"#!/bin/sh\nmkdir -p build/native && date > build/native/{NATIVE.name}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    for name in ("runtime", "ready"):
        (tmp_path / ".venv" / name).touch()
    return tmp_path


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


def test_the_library_is_built_when_its_sources_change_and_only_then(installed: Path) -> None:
    here = ("native", "CMAKE=.venv/bin/cmake")
    assert make(installed, *here).returncode == 0
    assert (installed / NATIVE).is_file()
    assert make(installed, "--question", *here).returncode == 0
    for source in ("src/fedtrip/native/engine/one.cpp", "CMakeLists.txt"):
        later = (installed / NATIVE).stat().st_mtime + 10
        os.utime(installed / source, (later, later))
        assert make(installed, "--question", *here).returncode == 1
        os.utime(installed / NATIVE, (later, later))
        assert make(installed, "--question", *here).returncode == 0


@pytest.mark.parametrize("target", ["test", "test-slow", "cross", "bench", "race", "reliability"])
def test_tests_and_measurements_demand_the_library(installed: Path, target: str) -> None:
    done = make(installed, target, "CMAKE=.venv/bin/cmake")
    assert done.returncode == 0, done.stderr
    program = "python" if target in ("bench", "race", "reliability") else "pytest"
    assert done.stdout.splitlines()[-1] == f"called {program}, native required"
    (installed / NATIVE).unlink()
    failed = make(installed, target, "CMAKE=false")
    assert failed.returncode != 0
    assert f"called {program}" not in failed.stdout


def test_the_demo_goes_without_a_library_that_cannot_be_built_and_says_so(installed: Path) -> None:
    built = make(installed, "demo", "CMAKE=.venv/bin/cmake")
    assert built.stdout.splitlines()[-1] == "called fedtrip, native optional"
    assert "could not be built" not in built.stdout
    (installed / NATIVE).unlink()
    without = make(installed, "demo", "CMAKE=false")
    assert without.returncode == 0
    assert without.stdout.splitlines()[-1] == "called fedtrip, native optional"
    assert "The native library could not be built" in without.stdout


def test_where_the_system_has_no_cmake_it_is_installed(tmp_path: Path) -> None:
    clone(tmp_path)
    told = make(tmp_path, "--dry-run", "native", "CMAKE=.venv/bin/cmake").stdout
    assert ".venv/bin/python -m pip install --constraint constraints.txt cmake" in told.splitlines()


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
