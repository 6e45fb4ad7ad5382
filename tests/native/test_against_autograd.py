"""The engine against torch's autograd in float64: outputs, representation and every gradient, for any chain."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from tests.native.chains import Drawn, modules
from torch import Tensor, nn

from fedtrip.layout import in_order
from fedtrip.native.chain import Mode
from fedtrip.native.chain import Sgd as Steps


def exact(drawn: Drawn, x: Tensor) -> tuple[nn.Sequential, Tensor, Tensor]:
    """The module in float64 without dropout, its outputs and what goes into its last layer."""
    module = copy.deepcopy(drawn.module).double().eval()
    before = module[:-1](x.double())
    return module, module[-1](before), before


def flat_gradient(drawn: Drawn, module: nn.Module) -> Tensor:
    """The gradients as they lie in the engine's vector."""
    parts = []
    for name, parameter in module.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        part = torch.empty(parameter.numel(), dtype=torch.float64)
        in_order(part, parameter.shape, drawn.chain.orders.get(name)).copy_(gradient)
        parts.append(part)
    return torch.cat(parts)


def close(ours: Tensor, theirs: Tensor) -> bool:
    """Equal but for float32's rounding, beside the largest number."""
    scale = float(theirs.detach().abs().max()) if theirs.numel() else 0.0
    return torch.allclose(ours.double(), theirs.detach(), rtol=1e-4, atol=3e-6 * max(scale, 1.0))


@settings(max_examples=150, deadline=None)
@given(modules(dropout=False))
def test_outputs_and_gradients_are_those_of_autograd(drawn: Drawn) -> None:
    chain, x = drawn.chain, drawn.inputs(more=3)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(drawn.seed))[: drawn.samples].contiguous()
    module, outputs, before = exact(drawn, x[rows])
    native, w = chain.native(), chain.weights_of(drawn.module)

    ours, tapped = native.forward(w, x, rows, mode=Mode.KEPT, tap=True)
    assert tapped is not None
    assert close(ours, outputs)
    assert close(tapped, before.flatten(1))

    d_outputs, d_tapped = drawn.like(*ours.shape), drawn.like(*tapped.shape, purpose=2)
    ((outputs * d_outputs).sum() + (before.flatten(1) * d_tapped).sum()).backward()  # type: ignore[no-untyped-call]
    expected = flat_gradient(drawn, module)
    g = torch.full_like(w, torch.nan)
    native.backward(d_outputs, d_tapped, g)
    assert close(g, expected)
    native.backward(d_outputs, d_tapped, g, accumulate=True)
    assert close(g, 2 * expected)


@settings(max_examples=50, deadline=None)
@given(modules(dropout=False))
def test_a_training_is_that_of_torch(drawn: Drawn) -> None:
    """Two epochs with a smaller last batch, momentum, a·w and c, in float64 by torch's own parts."""
    chain, samples = drawn.chain, drawn.samples + 3
    x = drawn.inputs(more=3)
    labels = torch.randint(chain.outputs, (samples,), generator=torch.Generator().manual_seed(drawn.seed))
    generator = torch.Generator().manual_seed(drawn.seed + 1)
    order = torch.stack([torch.randperm(samples, generator=generator) for _ in range(2)])
    w = chain.weights_of(drawn.module)
    m, c, start = torch.zeros_like(w), 0.01 * drawn.like(len(w)), w.double()
    chain.native().train(w, m, x, labels, order, drawn.samples, Steps(0.01, 0.9, 0.3, c), key=1)

    module, momentum = copy.deepcopy(drawn.module).double().eval(), torch.zeros(len(w), dtype=torch.float64)
    flat = start
    for rows in (rows for epoch in order for rows in torch.split(epoch, drawn.samples)):
        _put(drawn, module, flat)
        module.zero_grad()
        loss = nn.functional.cross_entropy(module(x[rows].double()), labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        momentum = 0.9 * momentum + flat_gradient(drawn, module) + c.double() + 0.3 * flat
        flat = flat - 0.01 * momentum
    assert torch.allclose(w.double(), flat, rtol=1e-3, atol=1e-4)


def _put(drawn: Drawn, module: nn.Module, flat: Tensor) -> None:
    start = 0
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            span = flat[start : start + parameter.numel()]
            parameter.copy_(in_order(span, parameter.shape, drawn.chain.orders.get(name)))
            start += parameter.numel()


@settings(max_examples=30, deadline=None)
@given(modules(dropout=False))
def test_an_evaluation_adds_up_cross_entropy_and_hits(drawn: Drawn) -> None:
    chain, x = drawn.chain, drawn.inputs(more=70)
    labels = torch.randint(chain.outputs, (len(x),), generator=torch.Generator().manual_seed(drawn.seed))
    loss, hits = chain.native().evaluate(chain.weights_of(drawn.module), x, labels)
    outputs = exact(drawn, x)[1].detach()
    assert loss == pytest.approx(
        float(nn.functional.cross_entropy(outputs, labels, reduction="sum")), rel=1e-4, abs=1e-4
    )
    first, second = outputs.topk(min(2, outputs.shape[1]), dim=1).values.unbind(1) if outputs.shape[1] > 1 else (0, -1)
    unclear = int(((torch.as_tensor(first) - torch.as_tensor(second)) < 1e-4).sum())
    assert abs(hits - int((outputs.argmax(1) == labels).sum())) <= unclear
