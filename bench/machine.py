"""What a figure was measured on, and with which of the processor's instructions."""

from __future__ import annotations

import os
from pathlib import Path

from fedtrip.native.library import kernels

AVX2_ONLY = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "FEDTRIP_KERNELS": "avx2",
}
"""The environment in which torch, its libraries and our kernels use nothing beyond AVX2."""


def cpu_name() -> str:
    """As the system calls it, with family and model, because virtual machines shorten the name."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return f"{facts['model name']} (family {facts['cpu family']}, model {facts['model']})"


def has_avx512() -> bool:
    """Whether the processor has it; which kernels our engine takes there is another question."""
    return " avx512f " in Path("/proc/cpuinfo").read_text()


def settings() -> dict[str, dict[str, str]]:
    """The environments to measure in, by the widest instructions that all libraries may use there."""
    assert kernels() is not None, "the benchmark measures the native library"
    return {"avx512": {}, "avx2": AVX2_ONLY} if has_avx512() else {"avx2": {}}


def instructions() -> str:
    """Which of the settings this process runs in."""
    limited = all(os.environ.get(name) == value for name, value in AVX2_ONLY.items())
    return "avx512" if has_avx512() and not limited else "avx2"
