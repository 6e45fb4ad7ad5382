"""The arithmetic of methods, server, codecs and optimizers has the same bits with other vector instructions, and
without the compiled library."""

import json
import os
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

from fedtrip.native.library import library

NARROW = {"ATEN_CPU_CAPABILITY": "default", "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__)}
ENVIRONMENTS = {"as it is": {}, "narrow": NARROW, "plain": {"FEDTRIP_NATIVE": "off"}}
ENVIRONMENTS["narrow and plain"] = {**NARROW, "FEDTRIP_NATIVE": "off"}


def digests(environment):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::ImportWarning", "-m", "tests.reference.vector_bits"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def found():
    return {name: digests(environment) for name, environment in ENVIRONMENTS.items()}


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "as it is"])
def test_the_bits_do_not_depend_on_vector_instructions_or_the_library(found, name):
    if library() is None and "FEDTRIP_NATIVE" not in ENVIRONMENTS[name]:
        pytest.skip("there is no compiled library")
    here, there = (
        {part: digest for part, digest in found[run].items() if part not in ("control", "torch")}
        for run in ("as it is", name)
    )
    assert there == here
    assert len(set(map(str, here.values()))) > 20  # every rule does something of its own


def test_a_fused_multiply_add_would_be_seen(found):
    if found["as it is"]["torch"] == "DEFAULT":
        pytest.skip("this processor has no other vector instructions")
    assert found["narrow"]["torch"] == "DEFAULT"
    assert found["narrow"]["control"] != found["as it is"]["control"]
