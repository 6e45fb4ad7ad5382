"""What the models for sequences of token ids share: which places of a sequence have outputs."""

from __future__ import annotations

from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec
from fedtrip.models.check import Outputs

TEXT = InputSpec.tokens(80, vocabulary=90)
"""80 characters out of 90: the Shakespeare of McMahan et al. (2017) and Reddi et al. (2021)."""


def places_of(model: str, sample_shape: tuple[int, ...]) -> int:
    """T, the places of a sequence of shape (T,)."""
    if len(sample_shape) != 1:
        raise UserError(
            f"model '{model}' cannot take samples of shape {tuple(sample_shape)}; accepted: (places,), a sequence of "
            "token ids"
        )
    return sample_shape[0]


def has_every_place(model: str, sample_shape: tuple[int, ...], outputs: Outputs) -> bool:
    """Whether the task wants outputs (T, count) for every place, as of the next token; otherwise it wants (count,) for
    the whole sequence, which are those of its last place."""
    every = (*sample_shape, outputs.count)
    if outputs.shape is None or outputs.shape == (outputs.count,):
        return False
    if outputs.shape != every:
        raise UserError(
            f"model '{model}' cannot return shape {outputs.shape} for a sequence of shape {tuple(sample_shape)}, as "
            f"the task wants; accepted: {(outputs.count,)} for the sequence, or {every} for its places"
        )
    return True
