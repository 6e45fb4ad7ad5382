"""Multinomial logistic regression; with one output and the task `regression` it is linear regression."""

from __future__ import annotations

import math

from torch import nn

from fedtrip.errors import UserError


class Logistic(nn.Sequential):
    """Flatten; FC `classes`: z = A·x + b. With 784 features and 10 classes 7,850 parameters, 7,840 MACs a sample."""

    title = "logistic regression: one fully connected layer"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        features = math.prod(sample_shape)
        if not sample_shape or features < 1:
            raise UserError(
                f"model 'logistic' cannot take samples of shape {tuple(sample_shape)}; "
                "accepted: any shape with at least one dimension and no empty one, smallest (1,)"
            )
        super().__init__(nn.Flatten(), nn.Linear(features, classes))
