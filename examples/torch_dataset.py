"""A torch Dataset of your own, one for each client, with a module of your own and random changes of its batches.

Each of six people wears a sensor that records three channels; what they do is one of four movements.
Run it with: python examples/torch_dataset.py
"""

import math

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import fedtrip

MOVEMENTS, CHANNELS, TIMES = 4, 3, 32


class Recordings(Dataset[tuple[Tensor, int]]):
    """The recordings of one person: a movement is a frequency, and everybody moves a little faster or slower."""

    def __init__(self, person: int, first: int, count: int) -> None:
        self.person, self.first, self.count = person, first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        movement = index % MOVEMENTS
        random = torch.Generator().manual_seed(
            1000 * self.person + self.first + index
        )  # the same recording each time it is read
        frequency = (1 + movement) * (1 + 0.05 * self.person)
        time = torch.linspace(0, 1, TIMES)
        phase = torch.rand(CHANNELS, 1, generator=random)
        signal = torch.sin(2 * math.pi * (frequency * time + phase))
        return signal + 0.3 * torch.randn(CHANNELS, TIMES, generator=random), movement


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(CHANNELS, 16, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(64, MOVEMENTS)
    )


if __name__ == "__main__":
    train = [Recordings(person, 0, 40 + 20 * person) for person in range(6)]  # one Dataset for each client
    test = [Recordings(person, 500, 40) for person in range(6)]
    experiment = fedtrip.Experiment(method="fedtrip", rounds=20, lr=0.05, batch_size=20, augment="noise:0.1")
    result = fedtrip.run(experiment, model=make_model, data=(train, test), workers=1)
    print(f"{result.experiment.clients} people, {result.experiment.rounds} rounds")
    print(f"accuracy on the people's test recordings: {result.curve[-1][1]:.1%}")
