"""One model in one setting, in a process of its own: `python -m bench.one_case NAME TURNS` prints it as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch

from bench.cases import CASES
from bench.layers import MEASURED, layer_times
from bench.machine import instructions
from bench.measure import over_fedavg, whole_rounds
from fedtrip.native.library import kernels


def measured_apart(name: str, turns: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """`measured` in another process, which has these environment variables."""
    command = [sys.executable, "-m", "bench.one_case", name, str(turns)]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(name: str, turns: int) -> dict[str, Any]:
    """Everything about one model, and what it was computed with."""
    case = CASES[name]
    return {
        "kernels": instructions(),
        "our kernels": kernels(),
        "torch": torch.backends.cpu.get_cpu_capability(),
        **whole_rounds(case, turns),
        "over fedavg": over_fedavg(case, turns),
        "layers": layer_times(case, turns) if name in MEASURED else [],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
