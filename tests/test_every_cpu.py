"""What is drawn or computed from scalars has the same bits whatever vector instructions a CPU has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

OPTIONAL = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
"""What this CPU has beyond the least that NumPy needs."""
PLAIN = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(OPTIONAL),
    "ATEN_CPU_CAPABILITY": "default",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
}


def of_process(**environment):
    """The digests of `tests/fixed_bits.py` in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.fixed_bits"],
        env={**{name: value for name, value in os.environ.items() if name not in PLAIN}, **environment},
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(told.stdout)


@pytest.mark.skipif(not OPTIONAL, reason="this CPU has no vector instructions to do without")
def test_draws_weights_and_schedules_have_the_same_bits_without_vector_instructions():
    full, plain = of_process(), of_process(**PLAIN)
    others = {name for name, digest in full["libraries"].items() if plain["libraries"][name] != digest}
    assert others, "no library computes differently without vector instructions: the test compares nothing"
    assert {name for name, digest in full["ours"].items() if plain["ours"][name] != digest} == set()
