"""Where the time of the native engine goes, layer by layer: chains that end after each layer, and their differences.

Forward is a pass of 1,000 samples with nothing kept, as in evaluation; training a pass forward and back of 50, without
the loss and the step of SGD. Beside them stands the time of a layer's multiply-adds at the speed of sgemm in the same
turn. Single differences are as noisy as the longer chain.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.cases import Case
from bench.turns import Work, interleaved, sgemm, sgemm_rates
from fedtrip.models.chain import Chain, trace_chain
from fedtrip.native.chain import Kind, Layer, Mode, NativeChain

FORWARD, BATCH = 1000, 50
MEASURED = ("mlp", "cnn")


def layer_times(case: Case, turns: int) -> list[dict[str, Any]]:
    """Each layer's microseconds a sample, forward and in training, and those of its multiply-adds at sgemm's speed."""
    module = case.federation().module
    chain = trace_chain(module, case.shape)
    w = chain.weights_of(module)
    first = next(
        count for count, layer in enumerate(chain.layers, 1) if products(layer)
    )  # before it is nothing to learn
    works = {"sgemm": sgemm()}
    for count in range(first, len(chain.layers) + 1):
        works[f"forward {count}"] = Work(_forward(chain, count, w), at_once=3)
        works[f"training {count}"] = Work(_training(chain, count, w), at_once=20)
    seconds = interleaved(works, turns)
    rate = statistics.median(sgemm_rates(seconds["sgemm"]))
    rows, before = [], {"forward": 0.0, "training": 0.0}
    for count in range(first, len(chain.layers) + 1):
        until = {
            what: 1e6 * statistics.median(seconds[f"{what} {count}"]) / samples
            for what, samples in (("forward", FORWARD), ("training", BATCH))
        }
        macs = products(chain.layers[count - 1])
        passes = 2 if count == first else 3  # the first layer with weights hands no gradient back
        rows.append({
            "layer": str(replace(chain, layers=chain.layers[0 if count == first else count - 1 : count])),
            "macs": macs,
            "forward": until["forward"] - before["forward"],
            "forward at sgemm": 1e6 * macs / rate,
            "training": until["training"] - before["training"],
            "training at sgemm": 1e6 * passes * macs / rate,
        })  # fmt: skip
        before = until
    return rows


def products(layer: Layer) -> int:
    """Multiply-adds of one sample's forward pass."""
    if layer.kind == Kind.CONVOLUTION:
        places = layer.out_h * layer.out_w
        return layer.outputs * places * layer.inputs * layer.kernel_h * layer.kernel_w
    return layer.inputs * layer.outputs if layer.kind == Kind.LINEAR else 0


def size_after(sample_shape: tuple[int, ...], layers: tuple[Layer, ...]) -> int:
    """Numbers of one sample that leave the last of these layers."""
    channels, places = sample_shape[0], math.prod(sample_shape[1:])
    for layer in layers:
        if layer.kind in (Kind.CONVOLUTION, Kind.MAX_POOL, Kind.AVERAGE_POOL):
            channels = layer.outputs if layer.kind == Kind.CONVOLUTION else channels
            places = layer.out_h * layer.out_w
        elif layer.kind == Kind.LINEAR:
            channels, places = layer.outputs, 1
    return channels * places


def _beginning(chain: Chain, count: int) -> tuple[NativeChain, int]:
    """The chain of the first layers, and how many numbers leave it."""
    layers = chain.layers[:count]
    outputs = size_after(chain.sample_shape, layers)
    return NativeChain(layers, chain.sample_shape, chain.parameters, outputs), outputs


def _forward(chain: Chain, count: int, w: torch.Tensor) -> Callable[[], object]:
    native, _ = _beginning(chain, count)
    x = torch.randn(FORWARD, *chain.sample_shape)
    return lambda: native.forward(w, x)


def _training(chain: Chain, count: int, w: torch.Tensor) -> Callable[[], object]:
    native, outputs = _beginning(chain, count)
    x, d_outputs, g = torch.randn(BATCH, *chain.sample_shape), torch.randn(BATCH, outputs), torch.empty_like(w)

    def step() -> None:
        native.forward(w, x, mode=Mode.TRAINING)
        native.backward(d_outputs, None, g)

    return step
