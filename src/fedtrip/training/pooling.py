"""2×2 max-pooling as maxima of slices: the same numbers as torch's, several times faster on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MaxPool2x2(nn.Module):
    """`nn.MaxPool2d(2)` as maxima of slices: rows first, then columns."""

    def forward(self, x: Tensor) -> Tensor:
        return max_pool_2x2(x)


def max_pool_2x2(x: Tensor) -> Tensor:
    """2×2 max-pooling with stride 2; an odd last row or column is left out, as torch does."""
    height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    x = x[..., :height, :width]
    if torch.is_grad_enabled() and x.requires_grad:
        pooled: Tensor = _MaxPool2x2.apply(x)  # type: ignore[no-untyped-call]
        return pooled
    rows = torch.maximum(x[..., ::2, :], x[..., 1::2, :])
    return torch.maximum(rows[..., ::2], rows[..., 1::2])


class _MaxPool2x2(torch.autograd.Function):
    """The same with a backward pass of its own: autograd's for slices fills whole arrays with zeros first."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        rows = torch.maximum(x[..., ::2, :], x[..., 1::2, :])
        ctx.save_for_backward(x, rows)
        return torch.maximum(rows[..., ::2], rows[..., 1::2])

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        """The gradient goes to the largest; of equals to the lower, and of these to the right one."""
        x, rows = ctx.saved_tensors  # type: ignore[attr-defined]
        grad_rows = torch.empty_like(rows)
        _divide(grad, rows[..., ::2] - rows[..., 1::2], grad_rows[..., ::2], grad_rows[..., 1::2])
        grad_x = torch.empty_like(x)
        _divide(grad_rows, x[..., ::2, :] - x[..., 1::2, :], grad_x[..., ::2, :], grad_x[..., 1::2, :])
        return grad_x


def _divide(grad: Tensor, difference: Tensor, first: Tensor, second: Tensor) -> None:
    """Give each gradient to the first of two where their difference is positive, else to the second; zero to the other.

    ReLU's own backward kernel does the choice: a comparison and a product with its result take much longer.
    """
    to_first = torch.ops.aten.threshold_backward(grad, difference, 0)
    first.copy_(to_first)
    torch.sub(grad, to_first, out=second)


def is_2x2_pool(layer: nn.Module) -> bool:
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return False
    settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    return [_pair(value) for value in settings] == [(2, 2), (2, 2), (0, 0), (1, 1)]


def _pair(value: object) -> object:
    return (value, value) if isinstance(value, int) else value
