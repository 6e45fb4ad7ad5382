"""Finding and loading the compiled library: `library()` is None where there is none, and `why_missing()` says why.

Environment variables: FEDTRIP_NATIVE=off does without the library, FEDTRIP_NATIVE=required makes its absence an error;
FEDTRIP_KERNELS forces one of KERNELS; FEDTRIP_NATIVE_LIBRARY names another file to load (the sanitizers' build).
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from fedtrip.errors import UserError
from fedtrip.native.interface import FUNCTIONS, INTERFACE

FILE_NAME = "libfedtrip_native.so"
KERNELS = ("avx512", "avx2", "wide", "reference")
"""What FEDTRIP_KERNELS takes; without it the library takes the fastest for the processor.

All give the same bits; reference is the plain scalar program.
"""


def library() -> ctypes.CDLL | None:
    """The library with the types of all its functions; None if this machine or this installation has none."""
    loaded, missing = _load()
    if missing is not None and _wanted() == "required":
        raise UserError(f"FEDTRIP_NATIVE is 'required', but the native library is missing: {missing}")
    return loaded


def why_missing() -> str | None:
    """Why there is no library, in one sentence; None if there is one."""
    return _load()[1]


def kernels() -> str | None:
    """The kernels chosen for this processor or forced, one of KERNELS; None without the library."""
    loaded = library()
    return None if loaded is None else _kernels_of(loaded)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Chains that are made in here have these kernels, one of KERNELS; all of them give the same bits."""
    loaded = library()
    if loaded is None or loaded.fedtrip_choose(name.encode()):
        raise UserError(f"kernels '{name}' cannot be used here; accepted: {', '.join(usable_kernels())}")
    try:
        yield
    finally:
        loaded.fedtrip_choose(None)


def usable_kernels() -> tuple[str, ...]:
    """Those of KERNELS that this processor can run."""
    loaded = library()
    return () if loaded is None else _usable(loaded)


@cache
def _load() -> tuple[ctypes.CDLL | None, str | None]:
    """The library, or why there is none."""
    forced = os.environ.get("FEDTRIP_KERNELS") or None
    if forced is not None and forced not in KERNELS:
        raise UserError(f"FEDTRIP_KERNELS is '{forced}'; accepted: {', '.join(KERNELS)}")
    if _wanted() == "off":
        return None, "FEDTRIP_NATIVE is 'off'"
    path = Path(os.environ.get("FEDTRIP_NATIVE_LIBRARY") or Path(__file__).with_name(FILE_NAME))
    if (processor := platform.machine()) != "x86_64":
        return None, f"it is written for x86-64 with AVX2 and FMA, and this processor is {processor}"
    if not path.is_file():
        built = "it is built by `pip install` where there is GCC or Clang, or by `make native` in a checkout"
        return None, f"there is no {path.name} in {path.parent}; {built}"
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as problem:
        return None, f"it cannot be loaded: {problem}"
    return _checked(loaded, forced)


def _checked(loaded: ctypes.CDLL, forced: str | None) -> tuple[ctypes.CDLL | None, str | None]:
    """The library with its types, if it is of this version and this processor can run it."""
    for name, (returned, taken) in FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            return None, f"it was built from other sources, without {name}: build it again"
        function.restype, function.argtypes = returned, taken
    if (version := loaded.fedtrip_interface()) != INTERFACE:
        return None, f"its interface is version {version}, not {INTERFACE}: build it again"
    usable = _usable(loaded)
    if not usable:
        return None, "this processor has no AVX2 and FMA"
    if forced is not None and forced not in usable:
        accepted = ", ".join(usable)
        raise UserError(f"FEDTRIP_KERNELS is '{forced}', which this processor cannot run; accepted: {accepted}")
    return loaded, None


def _usable(loaded: ctypes.CDLL) -> tuple[str, ...]:
    usable = tuple(name for name in KERNELS if loaded.fedtrip_choose(name.encode()) == 0)
    loaded.fedtrip_choose(None)  # again what the library chooses by itself
    return usable


def _kernels_of(loaded: ctypes.CDLL) -> str:
    named: bytes = loaded.fedtrip_kernels()
    return named.decode()


def _wanted() -> str:
    """`off`, `required`, or nothing: the library if there is one."""
    wanted = os.environ.get("FEDTRIP_NATIVE", "")
    if wanted not in ("", "off", "required"):
        raise UserError(f"FEDTRIP_NATIVE is '{wanted}'; accepted: off, required, or not set")
    return wanted
