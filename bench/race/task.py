"""What all of them train: read from one file, with torch and numpy alone, in any environment.

A program of the race is called with `TASK.npz MODEL ROUNDS SEED`. Its last line of output is a JSON table: the test
accuracy after each round, and when each round ended (seconds of one clock).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CLIENTS, PER_ROUND, SAMPLES, BATCH, LR, MOMENTUM = 10, 4, 600, 50, 0.01, 0.9
TEST_BATCH = 1000


@dataclass(frozen=True)
class Task:
    """Normalised inputs and labels: those of all clients together, whose each is, and the test set."""

    x: Tensor
    y: Tensor
    client: Tensor
    x_test: Tensor
    y_test: Tensor

    def of_client(self, client: int) -> tuple[Tensor, Tensor]:
        """One client's samples."""
        rows = self.client == client
        return self.x[rows], self.y[rows]


@cache
def load_task(path: str) -> Task:
    """Read once a process."""
    with np.load(Path(path)) as stored:
        return Task(**{name: torch.from_numpy(stored[name]) for name in ("x", "y", "client", "x_test", "y_test")})


def make_model(name: str, seed: int = 0) -> nn.Module:
    """The paper's MLP or CNN; with the same initial weights for all who give this seed."""
    torch.manual_seed(seed)
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 120, 5), nn.ReLU(), nn.Flatten(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def shuffled_batches(x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    """An epoch. Faster than a DataLoader, which collates sample by sample."""
    return [(x[rows], y[rows]) for rows in torch.randperm(len(y)).split(BATCH)]


@torch.no_grad()
def accuracy(model: nn.Module, task: Task) -> float:
    """On the test set."""
    batches = zip(task.x_test.split(TEST_BATCH), task.y_test.split(TEST_BATCH), strict=True)
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in batches) / len(task.y_test)


@dataclass
class Notes:
    """What a program notes after each round."""

    accuracy: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def note(self, reached: float) -> None:
        self.accuracy.append(reached)
        self.ended.append(time.perf_counter())

    def tell(self) -> None:
        print(json.dumps(vars(self)), flush=True)


def arguments() -> tuple[str, str, int, int]:
    """The task's file, the model, the rounds and the seed."""
    path, model, rounds, seed = sys.argv[1:]
    return path, model, int(rounds), int(seed)
