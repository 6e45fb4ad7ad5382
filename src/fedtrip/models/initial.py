"""The initial weights of the built-in models: torch's distributions, drawn by us.

torch draws them with vector instructions, and their bits follow the CPU's.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from fedtrip.randomness import Floats, normals, stream, uniforms


def draw_initial_weights(model: nn.Module, seed: int) -> None:
    """Every layer's parameters in the order of the layers, each drawn in float64 and rounded to float32.

    - `nn.Linear` and `nn.Conv2d`: weight and bias ~ U(−b, b), b = 1/√(inputs of one output); torch's
      `kaiming_uniform_(a=√5)` has this bound, √(6/(1 + 5))/√inputs. Each is (2u − 1)·b.
    - `nn.LSTM`: all of them ~ U(−b, b), b = 1/√hidden.
    - `nn.Embedding`: ~ N(0, 1).
    - the normalisations: 1 and 0; nothing is drawn.
    """
    rng = stream(seed, "model")
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            _fill(layer, rng, 1 / math.sqrt(layer.weight[0].numel()))
        elif isinstance(layer, nn.LSTM):
            _fill(layer, rng, 1 / math.sqrt(layer.hidden_size))
        elif isinstance(layer, nn.Embedding):
            _set(layer.weight, normals(rng, layer.weight.numel()))
        elif isinstance(layer, nn.GroupNorm | nn.BatchNorm2d | nn.LayerNorm):
            layer.reset_parameters()
        elif layer._parameters or layer._buffers:
            raise TypeError(f"no initial weights are known for {type(layer).__name__}")


def _fill(layer: nn.Module, rng: np.random.Generator, bound: float) -> None:
    for parameter in layer.parameters():
        _set(parameter, (2 * uniforms(rng, parameter.numel()) - 1) * bound)


def _set(parameter: torch.Tensor, values: Floats) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(values.astype(np.float32)).view_as(parameter))
