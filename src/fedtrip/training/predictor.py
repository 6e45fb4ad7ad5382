"""A trained module that takes inputs as they come in the data set: the normalisation and the module in one."""

# without `from __future__ import annotations`: TorchScript reads the types of the attributes, and not from text
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Predictor(nn.Module):
    """(x − mean) / std, then the module; the same numbers as `DataSet.normalised`, in a form that can be exported.

    Takes uint8 pixels, or floats: those of the data set, or pixels that were scaled to [0, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, module: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """The module's output for raw inputs (n, ...); token ids are taken as they are."""
        if not x.is_floating_point() and x.dtype != torch.uint8:
            return self.module(x)  # type: ignore[no-any-return]
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        mean, std = self.mean * scale, self.std * scale
        if len(mean) > 1:  # one for each channel, which is dimension 1
            shape = [-1] + [1] * (x.dim() - 2)
            mean, std = mean.reshape(shape), std.reshape(shape)
        return self.module((x.to(torch.float32) - mean) / std)  # type: ignore[no-any-return]
