"""A network with norm layers of two kinds of names, for the fault that finds them by name."""

from __future__ import annotations

from torch import Tensor, nn


class Shortcut(nn.Module):
    """A hidden layer beside a shortcut, as in a ResNet's block: the one's norm layer is called bn1, the other's not."""

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Flatten()
        self.first = nn.Linear(64, 50)
        self.bn1 = nn.BatchNorm1d(50)
        self.downsample = nn.Sequential(nn.Linear(64, 50), nn.BatchNorm1d(50))
        self.relu = nn.ReLU()
        self.head = nn.Linear(50, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.flat(x)
        return self.head(self.relu(self.bn1(self.first(x)) + self.downsample(x)))  # type: ignore[no-any-return]


NETWORKS = {"shortcut": Shortcut}
