"""A data set in memory: raw arrays as they were stored, and how an input is normalised when it is used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class DataSet:
    """Training and test samples. Inputs stay raw (uint8 or float32) and are normalised where they are used.

    `mean` and `std` hold one number, or one for each channel (dimension 1 of the inputs), in units of the
    value that the model would see without them: [0, 1] for uint8, the stored values for float32.
    `client_train` names the client of each training sample where the data come already split.
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    """how many there are, labels being 0 to classes − 1; 0 if the targets are numbers (float32)"""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    client_train: Tensor | None = None
    test_inputs: Tensor | None = None
    """`x_test` normalised, if that was done already"""

    def with_test_inputs(self) -> DataSet:
        """The same data set with its test inputs normalised once for all evaluations."""
        return self if self.test_inputs is not None else replace(self, test_inputs=self.normalised(self.x_test))

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one input, channels first."""
        return tuple(self.x_train.shape[1:])

    @property
    def clients(self) -> int | None:
        """How many clients the data are split into, or None if they are not."""
        return None if self.client_train is None else int(self.client_train.max()) + 1

    def normalised(self, x: Tensor) -> Tensor:
        """(x − mean) / std as float32, with uint8 pixels first scaled to [0, 1]."""
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        shape = (-1,) + (1,) * (x.dim() - 2) if len(self.mean) > 1 else ()
        mean = torch.tensor(self.mean, dtype=torch.float32).mul_(scale).reshape(shape)
        std = torch.tensor(self.std, dtype=torch.float32).mul_(scale).reshape(shape)
        return x.to(torch.float32).sub_(mean).div_(std) if x.dtype == torch.uint8 else (x - mean).div_(std)

    def sha256(self) -> str:
        """A digest of every array and of the normalisation: what a stored experiment demands again."""
        digest = hashlib.sha256(repr((self.classes, self.mean, self.std)).encode())
        for tensor in (self.x_train, self.y_train, self.x_test, self.y_test, self.client_train):
            if tensor is not None:
                digest.update(repr((str(tensor.dtype), tuple(tensor.shape))).encode())
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()
