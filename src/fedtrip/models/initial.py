"""The initial weights of the built-in models: torch's distribution, drawn by us.

torch draws them with vector instructions, and their bits follow the CPU's.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from fedtrip.randomness import stream, uniforms


def draw_initial_weights(model: nn.Module, seed: int) -> None:
    """Weights and biases of every layer ~ U(−b, b), b = 1/√(inputs of one output), in the order of the layers.

    Each is (2u − 1)·b in float64, rounded to float32. It is the default of `nn.Linear` and `nn.Conv2d`, whose
    `kaiming_uniform_(a=√5)` has the bound √(6/(1 + 5))/√inputs.
    """
    rng = stream(seed, "model")
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                drawn = ((2 * uniforms(rng, parameter.numel()) - 1) * bound).astype(np.float32)
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(drawn).view_as(parameter))
        elif layer._parameters or layer._buffers:
            raise TypeError(f"no initial weights are known for {type(layer).__name__}")
