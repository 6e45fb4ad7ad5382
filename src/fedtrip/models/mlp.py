"""The paper's multilayer perceptron."""

from __future__ import annotations

import math

from torch import nn

from fedtrip.errors import UserError


class MLP(nn.Sequential):
    """Flatten; FC `hidden`, ReLU; FC `classes`. 784-100-10 in the paper: 79,510 parameters, 79,400 MACs a sample."""

    title = "two fully connected layers, 100 hidden units"

    def __init__(self, sample_shape: tuple[int, ...], classes: int, hidden: int = 100) -> None:
        features = math.prod(sample_shape)
        if not sample_shape or features < 1:
            raise UserError(
                f"model 'mlp' cannot take samples of shape {tuple(sample_shape)}; "
                "accepted: any shape with at least one dimension and no empty one, smallest (1,)"
            )
        super().__init__(
            nn.Flatten(),
            nn.Linear(features, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )
