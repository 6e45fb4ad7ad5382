"""The reference runs have their committed bits here, whatever of the processor is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from fedtrip.api.reference_runs import known_bits, reference_runs
from fedtrip.native.library import usable_kernels

NARROW = {
    "ATEN_CPU_CAPABILITY": "default",
    "NPY_DISABLE_CPU_FEATURES": " ".join(
        name
        for name in np._core._multiarray_umath.__cpu_dispatch__
        if np._core._multiarray_umath.__cpu_features__[name]
    ),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX2_Usable,-FMA_Usable",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
}
"""What torch, NumPy, oneDNN, MKL and the C library are limited to, so that they compute as on an old processor."""


def asked(**environment: str) -> tuple[int, dict[str, bool]]:
    """What `fedtrip doctor --bits` answers in another process."""
    ran = subprocess.run(
        [sys.executable, "-m", "fedtrip", "doctor", "--bits", "--json"],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout, ran.stderr
    agrees: dict[str, bool] = json.loads(ran.stdout)["same_bits"]
    return ran.returncode, agrees


def differing(agrees: dict[str, bool]) -> list[str]:
    return [name for name, same in agrees.items() if not same]


def test_every_run_is_known() -> None:
    assert set(known_bits()) == set(reference_runs())


@pytest.mark.parametrize("kernels", usable_kernels())
def test_the_bits_are_those_that_came_with_fedtrip(kernels: str) -> None:
    code, agrees = asked(FEDTRIP_KERNELS=kernels)
    assert differing(agrees) == []
    assert code == 0


def test_the_bits_do_not_depend_on_other_libraries_vectors() -> None:
    assert NARROW["NPY_DISABLE_CPU_FEATURES"]  # or nothing would be tried
    code, agrees = asked(FEDTRIP_KERNELS="avx2", **NARROW)
    assert differing(agrees) == []
    assert code == 0


def test_a_differing_bit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: with one other committed digest it does."""
    from typer.testing import CliRunner

    from fedtrip.api import reference_runs as module
    from fedtrip.cli import app

    name = "digits, mlp, fedavg"
    monkeypatch.setattr(module, "known_bits", lambda: {name: "0" * 64})
    monkeypatch.setattr(module, "reference_runs", lambda: {name: module.ReferenceRun({"method": "fedavg"})})
    ran = CliRunner().invoke(app, ["doctor", "--bits"])
    assert ran.exit_code == 1
    assert "differs" in ran.stdout
    assert "1 differ from what came with fedtrip" in ran.stdout


def test_without_the_library_it_is_refused() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fedtrip", "doctor", "--bits"],
        env=os.environ | {"FEDTRIP_NATIVE": "off"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "doctor --bits needs the native library, which is missing here: FEDTRIP_NATIVE is 'off'" in ran.stderr
