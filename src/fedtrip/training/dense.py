"""The gradient of a chain of fully connected layers in closed form: the same numbers as autograd's, without its costs.

For models as small as the paper's MLP, autograd's bookkeeping takes as long as the multiplications.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class DenseChain:
    """z ← a·W + b for each layer, a ← relu(z) between them, and the cross entropy of the last z."""

    weights: tuple[Tensor, ...]
    """each layer's matrix, inputs × outputs, a view of the flat parameters"""
    biases: tuple[Tensor | None, ...]
    weight_gradients: tuple[Tensor, ...]
    bias_gradients: tuple[Tensor | None, ...]
    rectified: tuple[bool, ...]
    """whether a ReLU follows the layer"""

    def activations(self, x: Tensor) -> list[Tensor]:
        """The input of every layer, and the logits."""
        values = [x.flatten(1)]
        for weight, bias, rectify in zip(self.weights, self.biases, self.rectified, strict=True):
            value = values[-1] @ weight if bias is None else torch.addmm(bias, values[-1], weight)
            values.append(value.relu_() if rectify else value)
        return values

    def gradient(self, x: Tensor, y: Tensor, *, accumulate: bool) -> None:
        """Write the gradient of the mean cross entropy into the gradient vectors, or add it to what is there."""
        beta = 1 if accumulate else 0
        *inputs, logits = self.activations(x)
        grad = logits.softmax(1).sub_(functional.one_hot(y, logits.shape[1])).div_(len(y))
        for layer in range(len(self.weights) - 1, -1, -1):
            self.weight_gradients[layer].addmm_(inputs[layer].t(), grad, beta=beta)
            bias_gradient = self.bias_gradients[layer]
            if bias_gradient is not None:
                summed = grad.sum(0)
                bias_gradient.add_(summed) if accumulate else bias_gradient.copy_(summed)
            if layer > 0:
                grad = grad @ self.weights[layer].t()
                if self.rectified[layer - 1]:
                    grad = torch.ops.aten.threshold_backward(grad, inputs[layer], 0)


def dense_chain(module: nn.Module, sample_shape: tuple[int, ...]) -> DenseChain | None:
    """The module as such a chain, its gradients where the parameters' `.grad` are; None if it is anything else."""
    leaves = [leaf for leaf in _leaves(module) if type(leaf) is not nn.Identity]
    flat_input = len(sample_shape) == 1 or (bool(leaves) and _flattens(leaves[0]))
    layers = [leaf for leaf in leaves if not _flattens(leaf)]  # flat once, flat for ever
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    if not flat_input or not linear or layers[0] is not linear[0] or layers[-1] is not linear[-1]:
        return None
    parameters = [p for layer in linear for p in layer.parameters()]
    if any(type(layer) not in (nn.Linear, nn.ReLU) or has_hooks(layer) for layer in layers):
        return None
    if len(set(parameters)) != len(parameters) or not all(p.requires_grad for p in parameters):
        return None
    following = dict(itertools.pairwise(layers))
    return DenseChain(
        weights=tuple(layer.weight.detach().t() for layer in linear),
        biases=tuple(None if layer.bias is None else layer.bias.detach() for layer in linear),
        weight_gradients=tuple(_gradient(layer.weight).t() for layer in linear),
        bias_gradients=tuple(None if layer.bias is None else _gradient(layer.bias) for layer in linear),
        rectified=tuple(type(following.get(layer)) is nn.ReLU for layer in linear),
    )


def is_plain_sequence(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether a module does nothing but run its children one after the other."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to this very module."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _flattens(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of plain sequences in the order in which they run; what is anything else is one layer."""
    if is_plain_sequence(module) and not has_hooks(module):
        for child in module.children():
            yield from _leaves(child)
    else:
        yield module
