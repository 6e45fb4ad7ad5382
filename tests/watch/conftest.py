"""Run folders that are made up, as a run would leave them at any moment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedtrip import Experiment, RoundRecord
from fedtrip.tasks.interface import ACCURACY

WriteRun = Callable[..., Path]
FIELDS = {"partition": "dirichlet:0.5", "momentum": 0.9, "target": 0.9, "rounds": 20}


def line(number: int, accuracy: float | None, seconds: float = 0.5, **others: Any) -> str:
    """A line of metrics.jsonl: a round of two clients, 1 MB down and 0.5 MB up."""
    scores = {} if accuracy is None else {"accuracy": accuracy, "loss": 1.0}
    record = RoundRecord(number, scores, (0, 1), bytes_down=1_000_000, bytes_up=500_000, macs=10, seconds=seconds)
    return json.dumps({**record.as_json(), **others}) + "\n"


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`fedtrip ARGUMENTS` in a process of its own, which hears Ctrl-C and does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fedtrip", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also where pytest is a background job
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def write_run() -> WriteRun:
    """Write a run's folder with these accuracies; finished if there is a summary."""

    def write(
        folder: Path, accuracies: Sequence[float | None], summary: dict[str, Any] | None = None, **fields: Any
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "experiment.toml").write_text(Experiment(**{**FIELDS, **fields}).to_toml(), encoding="utf-8")
        lines = [line(number, accuracy) for number, accuracy in enumerate(accuracies, 1)]
        (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
        if summary is not None:
            goal = {"score": ACCURACY.score, "higher_is_better": True, "is_share": True}
            content = json.dumps({"goal": goal, "gflops_per_round": 0.5, **summary})
            (folder / "summary.json").write_text(content, encoding="utf-8")
        return folder

    return write
