"""Every kind of kernels gives the bits of the scalar reference: that is why a result does not depend on the CPU."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from tests.native.chains import Drawn, modules
from torch import Tensor

from fedtrip.native.chain import Mode
from fedtrip.native.chain import Sgd as Steps
from fedtrip.native.library import usable_kernels


def bits(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def everything(drawn: Drawn, kernels: str) -> dict[str, bytes]:
    """All that an engine with these kernels computes of a drawn chain."""
    native, chain = drawn.with_kernels(kernels), drawn.chain
    samples = drawn.samples + 3  # so that the last batch of an epoch has another size
    x, w = drawn.inputs(more=3), chain.weights_of(drawn.module)
    labels = torch.randint(chain.outputs, (samples,), generator=torch.Generator().manual_seed(drawn.seed))
    outputs, tapped = native.forward(w, x[: drawn.samples].contiguous(), mode=Mode.TRAINING, key=5, step=2, tap=True)
    assert tapped is not None
    g = torch.zeros_like(w)
    native.backward(drawn.like(*outputs.shape), drawn.like(*tapped.shape, purpose=2), g)
    order = torch.stack([torch.arange(samples), torch.arange(samples).flip(0)])
    m, c = torch.zeros_like(w), 0.01 * drawn.like(len(w))
    trained = w.clone()
    native.train(trained, m, x, labels, order, drawn.samples, Steps(0.05, 0.9, 0.3, c), key=9)
    plain = w.clone()
    native.train(plain, None, x, labels, order, drawn.samples, Steps(0.05, 0.0, 0.0, None), key=9)
    loss, hits = native.evaluate(trained, x, labels)
    return {
        "outputs": bits(outputs), "tapped": bits(tapped), "gradient": bits(g), "trained": bits(trained),
        "momentum": bits(m), "trained plainly": bits(plain), "scores": f"{loss.hex()} {hits}".encode(),
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(modules())
def test_all_kernels_give_the_bits_of_the_reference(drawn: Drawn) -> None:
    expected = everything(drawn, "reference")
    for kernels in usable_kernels():
        found = everything(drawn, kernels)
        assert [name for name in expected if found[name] != expected[name]] == [], kernels


def test_there_is_more_than_the_reference_to_compare() -> None:
    assert {"reference", "avx2", "wide"} <= set(usable_kernels())
