"""Which program computes a federation's numbers: the native engine, or torch. Decided once, by structure alone.

What was decided is a field of the complete experiment. So it is in the run folder and in the checkpoint, and travels to
every process and machine that does a part of the work; one that cannot do it so refuses.
"""

from __future__ import annotations

import torch
from torch import nn

from fedtrip.errors import UserError
from fedtrip.experiment.description import Compute, DecidedCompute
from fedtrip.inputs import SampleShape, spec_of
from fedtrip.methods.interface import Method
from fedtrip.models.chain import Chain, check_by_trial, trace_chain
from fedtrip.models.chain_layers import NotAChain
from fedtrip.models.representation import INPUT_OF, known_hidden_layer
from fedtrip.native.library import library, why_missing

TRAINS_BELOW, EVALUATES_BELOW = 64, 128
"""Channels of the widest convolution from which torch is as fast, in training and in evaluation.

Measured on a Zen 4, torch's time over the native engine's, with AVX-512 and with AVX2 only: 64 channels (McMahan's CNN)
0.91 and 1.11 in training, 1.5 and 1.8 in evaluation; AlexNet 0.63 and 0.78, 0.93 and 1.09.
"""


def tap_of(method: Method, module: nn.Module, representation: str | None) -> tuple[bool, str | None]:
    """Whether a method looks at what passes inside the module in training, and where: see `representation_layer`."""
    if method.needs_hidden:
        return True, INPUT_OF + known_hidden_layer(module)[0]
    return method.needs_representation, representation


def decide(
    compute: Compute,
    module: nn.Module,
    inputs: SampleShape,
    *,
    tapped: bool,
    representation: str | None,
    device: str = "cpu",
) -> DecidedCompute:
    """What `compute` means for this module: `auto` is native where that can be and is faster; all else is demanded.

    `tapped` says that the method looks at what passes inside the module, which the native engine must then have too.
    """
    if compute == "torch":
        return "torch"
    try:
        if torch.device(device).type != "cpu":
            raise NotAChain(f"it computes on the CPU, and device is '{device}'")
        if library() is None:
            raise NotAChain(f"the native library is missing: {why_missing()}")
        inputs = spec_of(inputs)
        if not inputs.is_numbers:
            raise NotAChain("its inputs are not one array of numbers")
        chain = trace_chain(module, inputs.shape)
        decided = _faster(chain) if compute == "auto" else compute
        if decided != "torch":
            check_by_trial(chain, module)
    except NotAChain as why:
        return _without(compute, "torch", why)
    if decided == "native" and tapped:
        try:
            trace_chain(module, spec_of(inputs).shape, tapped=True, representation=representation)
        except NotAChain as why:
            return _without(compute, "native-evaluation", why)
    return decided


def chain_for(
    decided: DecidedCompute,
    module: nn.Module,
    inputs: SampleShape,
    *,
    tapped: bool,
    representation: str | None,
) -> Chain | None:
    """What of the module is computed natively; only a chain that is trained needs the representation."""
    if decided == "torch":
        return None
    return trace_chain(
        module, spec_of(inputs).shape, tapped=tapped and decided == "native", representation=representation
    )


def _faster(chain: Chain) -> DecidedCompute:
    """What is faster for a chain."""
    widest = chain.widest_convolution
    if widest >= EVALUATES_BELOW:
        return "torch"
    return "native" if widest < TRAINS_BELOW else "native-evaluation"


def _without(compute: Compute, instead: DecidedCompute, why: NotAChain) -> DecidedCompute:
    """What `auto` takes where the engine cannot compute a module; refused where more was demanded."""
    if compute == "auto":
        return instead
    raise UserError(f"compute is '{compute}', which cannot be here: {why}; accepted: auto or torch") from None
