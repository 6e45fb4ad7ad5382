"""Which program computes a federation's numbers: the native engine, or torch. Decided once, by structure alone.

What was decided is a field of the complete experiment. So it is in the run folder and in the checkpoint, and travels to
every process and machine that does a part of the work; one that cannot do it so refuses.
"""

from __future__ import annotations

from torch import nn

from fedtrip.errors import UserError
from fedtrip.experiment.description import Compute, DecidedCompute
from fedtrip.models.chain import Chain, check_by_trial, trace_chain
from fedtrip.models.chain_layers import NotAChain
from fedtrip.native.library import library, why_missing

TRAINS_BELOW, EVALUATES_BELOW = 64, 128
"""Channels of the widest convolution from which torch is as fast, in training and in evaluation."""


def decide(
    compute: Compute, module: nn.Module, sample_shape: tuple[int, ...], *, tapped: bool, representation: str | None
) -> DecidedCompute:
    """What `compute` means for this module: `auto` is native where that can be and is faster; all else is demanded.

    `tapped` says that the method looks at the module's representation, which the native engine must then have too.
    """
    if compute == "torch":
        return "torch"
    try:
        if library() is None:
            raise NotAChain(f"the native library is missing: {why_missing()}")
        decided = _faster(module, sample_shape, tapped, representation) if compute == "auto" else compute
        if decided != "torch":
            check_by_trial(chain_for(decided, module, sample_shape, tapped, representation), module)
    except NotAChain as why:
        if compute == "auto":
            return "torch"
        raise UserError(f"compute is '{compute}', which cannot be here: {why}; accepted: auto or torch") from None
    return decided


def chain_for(
    decided: DecidedCompute,
    module: nn.Module,
    sample_shape: tuple[int, ...],
    tapped: bool,
    representation: str | None,
) -> Chain:
    """The chain that is computed natively; only a chain that is trained needs the representation."""
    return trace_chain(
        module, sample_shape, tapped=tapped and decided == "native", representation=representation
    )  # fmt: skip


def _faster(
    module: nn.Module, sample_shape: tuple[int, ...], tapped: bool, representation: str | None
) -> DecidedCompute:
    """The faster way for a module; raises `NotAChain` if there is no choice."""
    widest = trace_chain(module, sample_shape).widest_convolution
    if widest >= EVALUATES_BELOW:
        return "torch"
    if widest >= TRAINS_BELOW:
        return "native-evaluation"
    try:
        chain_for("native", module, sample_shape, tapped, representation)
    except NotAChain:
        return "native-evaluation"
    return "native"
