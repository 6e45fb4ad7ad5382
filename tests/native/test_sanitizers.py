"""The library under the address and undefined-behaviour sanitizers: the quick tests of this folder, once more.

Only the reference runs are left out, one for each method: they call nothing that the others do not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CMAKE = shutil.which("cmake") or Path(sys.executable).with_name("cmake")  # as in the Makefile

pytestmark = pytest.mark.slow


def call(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the loader takes a library that is built with the sanitizers."""
    folder = tmp_path_factory.mktemp("sanitized")
    for command in (
        (CMAKE, "-S", ROOT, "-B", folder, "-DFEDTRIP_SANITIZE=ON"),
        (CMAKE, "--build", folder, "--parallel", "2"),
    ):
        ended = call(*command)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    runtimes = [call("c++", f"-print-file-name={name}.so").stdout.strip() for name in ("libasan", "libubsan")]
    return {
        "FEDTRIP_NATIVE": "required",
        "FEDTRIP_NATIVE_LIBRARY": str(folder / "libfedtrip_native.so"),
        "LD_PRELOAD": " ".join(runtimes),  # Python itself is not built with them
        "ASAN_OPTIONS": "detect_leaks=0",  # Python and torch keep memory until the end
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


OVERRUN = """
import ctypes
from fedtrip.native.library import library
x, y = (ctypes.c_float * 4096)(), (ctypes.c_float * 4096)()
library().fedtrip_exp(x, 4096 + {beyond}, y)
print("done")
"""


def test_a_wrong_address_is_seen(checked: dict[str, str]) -> None:
    """Without this the next test could pass because nothing is checked."""
    good = call(sys.executable, "-c", OVERRUN.format(beyond=0), **checked)
    assert good.stdout == "done\n", good.stderr
    wrong = call(sys.executable, "-c", OVERRUN.format(beyond=1), **checked)
    assert "heap-buffer-overflow" in wrong.stderr
    assert wrong.returncode != 0


def test_the_quick_tests_of_the_library_find_nothing(checked: dict[str, str]) -> None:
    pytest_here = (sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow")
    ended = call(*pytest_here, "--ignore", "tests/native/test_reference_runs.py", "tests/native", **checked)
    assert ended.returncode == 0, ended.stdout + ended.stderr
