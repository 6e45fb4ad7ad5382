"""The library is found, checked and typed, and where there is none, fedtrip says why."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedtrip.errors import UserError
from fedtrip.native import library as loader
from fedtrip.native.interface import FUNCTIONS, INTERFACE, Layer

ENGINE = Path(loader.__file__).parent / "engine"
HEADERS = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ENGINE.glob("*.h")))
DECLARED = re.findall(r"FEDTRIP_EXPORT\s+([\w\s]+?[*\s])\s*(fedtrip_\w+)\(([^)]*)\)\s*;", HEADERS)
PLAIN = {
    "void": None, "int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double,
}  # fmt: skip


def as_ctypes(declared: str) -> object:
    """The type of a declaration in C: every pointer is an address, only text is text."""
    if "*" in declared:
        return ctypes.c_char_p if "char" in declared else ctypes.c_void_p
    return PLAIN[declared.split()[0]]


pytestmark = pytest.mark.usefixtures("fresh_library")


@pytest.fixture(autouse=True)
def nothing_wished(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FEDTRIP_NATIVE", "FEDTRIP_KERNELS"):
        monkeypatch.delenv(name, raising=False)


def elsewhere(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a new process prints: the kernels are chosen once a process."""
    return subprocess.run(
        [sys.executable, "-c", f"from fedtrip.native.library import *\n{program}"],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def built(folder: Path, source: str) -> Path:
    """A library made of one small source."""
    (folder / "other.c").write_text(source, encoding="utf-8")
    made = folder / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "other.c"], check=True)
    return made


def test_the_library_is_here_with_kernels() -> None:
    found = loader.library()
    assert found is not None, loader.why_missing()
    assert loader.why_missing() is None
    assert loader.kernels() in loader.KERNELS
    assert loader.library() is found


def test_the_table_says_what_the_headers_say() -> None:
    assert {name for _, name, _ in DECLARED} == set(FUNCTIONS)
    assert HEADERS.count("FEDTRIP_EXPORT ") - HEADERS.count("#define FEDTRIP_EXPORT ") == len(FUNCTIONS)
    for returned, name, taken in DECLARED:
        parts = [] if taken.strip() in ("", "void") else taken.split(",")
        assert FUNCTIONS[name] == (as_ctypes(returned), tuple(as_ctypes(part) for part in parts)), name


def test_a_layer_is_the_headers_struct() -> None:
    (body,) = re.findall(r"struct fedtrip_layer \{(.*?)\};", HEADERS, re.DOTALL)
    declared = [
        (name, PLAIN[kind])
        for kind, names in re.findall(r"^\s*(int64_t|double) ([\w, ]+);", body, re.MULTILINE)
        for name in names.split(", ")
    ]
    assert list(Layer._fields_) == declared
    assert ctypes.sizeof(Layer) == 8 * len(declared)


@pytest.mark.parametrize("name", ["avx2", "wide", "reference"])
def test_forced_kernels_are_used(name: str) -> None:
    ended = elsewhere("print(kernels())", FEDTRIP_KERNELS=name)
    assert ended.stdout == f"{name}\n", ended.stderr


def test_kernels_that_are_no_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTRIP_KERNELS", "sse")
    with pytest.raises(UserError, match="FEDTRIP_KERNELS is 'sse'; accepted: avx512, avx2, wide, reference"):
        loader.library()


def fitting(*runnable: str, version: int = INTERFACE) -> str:
    """A library with all functions of the headers, on a processor that can run these kernels."""
    others = set(FUNCTIONS) - {"fedtrip_kernels", "fedtrip_choose", "fedtrip_interface"}
    known = "".join(f'if (!strcmp(name, "{name}")) {{ chosen = "{name}"; return 0; }}' for name in runnable)
    return f"""
    #include <stdlib.h>
    #include <string.h>
    static const char* chosen = "";
    int fedtrip_choose(const char* name) {{
      if (!name) name = getenv("FEDTRIP_KERNELS") ? getenv("FEDTRIP_KERNELS") : "{next(iter(runnable), "")}";
      {known}
      return 1;
    }}
    const char* fedtrip_kernels(void) {{ return chosen; }}
    long fedtrip_interface(void) {{ return {version}; }}
    {"".join(f"void {name}(void) {{}}" for name in others)}
    """


def test_kernels_that_the_processor_cannot_run_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(built(tmp_path, fitting("avx2", "wide", "reference"))))
    monkeypatch.setenv("FEDTRIP_KERNELS", "avx512")
    with pytest.raises(UserError, match="'avx512', which this processor cannot run; accepted: avx2, wide, reference"):
        loader.library()
    monkeypatch.setenv("FEDTRIP_KERNELS", "wide")
    assert loader.kernels() == "wide"
    loader._load.cache_clear()
    monkeypatch.delenv("FEDTRIP_KERNELS")
    assert loader.kernels() == "avx2"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (fitting("avx2", version=70), f"its interface is version 70, not {INTERFACE}: build it again"),
        (fitting(), "this processor has no AVX2 and FMA"),
        (fitting("avx2").replace("fedtrip_sgd_step", "older"), "built from other sources, without fedtrip_sgd_step"),
    ],
)
def test_a_library_that_does_not_fit_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, why: str
) -> None:
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(built(tmp_path, source)))
    assert loader.library() is None
    assert why in str(loader.why_missing())
    assert loader.kernels() is None


def test_no_file_and_a_file_that_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(tmp_path / "none.so"))
    assert loader.library() is None
    assert str(loader.why_missing()).startswith(f"there is no none.so in {tmp_path}; it is built by `pip install`")
    (tmp_path / "text.so").write_text("text", encoding="utf-8")
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(tmp_path / "text.so"))
    loader._load.cache_clear()
    assert loader.library() is None
    assert "it cannot be loaded" in str(loader.why_missing())


def test_another_kind_of_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert loader.library() is None
    assert loader.why_missing() == "it is written for x86-64 with AVX2 and FMA, and this processor is aarch64"


def test_off_and_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTRIP_NATIVE", "off")
    assert loader.library() is None
    assert loader.why_missing() == "FEDTRIP_NATIVE is 'off'"
    loader._load.cache_clear()
    monkeypatch.setenv("FEDTRIP_NATIVE", "required")
    assert loader.library() is not None
    loader._load.cache_clear()
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(UserError, match=r"FEDTRIP_NATIVE is 'required', but .* there is no none\.so"):
        loader.library()
    monkeypatch.setenv("FEDTRIP_NATIVE", "yes")
    with pytest.raises(UserError, match="FEDTRIP_NATIVE is 'yes'; accepted: off, required, or not set"):
        loader.library()


def test_it_needs_no_torch() -> None:
    ended = elsewhere("import sys; library(); print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert ended.stdout == "False False\n", ended.stderr
