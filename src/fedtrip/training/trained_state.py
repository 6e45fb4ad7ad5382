"""A module's state without its frozen parameters, which are the same before and after a run: of a large base with small
adapters only these are stored.

In the place of the frozen parameters stands their SHA-256, so that a state is never put into another base, and equal
digests of states are equal models.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from fedtrip.errors import UserError
from fedtrip.vectors import state_sha256

FROZEN_SHA256 = "SHA-256 of the frozen parameters"
"""The name of these 32 bytes in a state; with its spaces it is no attribute of a module."""


def frozen_names(module: nn.Module) -> frozenset[str]:
    """The names of the frozen parameters in the module's state dict."""
    return frozenset(_frozen(module))


def without_frozen(state: Mapping[str, Tensor], frozen: Collection[str]) -> dict[str, Tensor]:
    """A state dict with the digest of its frozen parameters in their place; as it is if there are none."""
    if not frozen:
        return dict(state)
    digest = _digest({name: state[name] for name in frozen})
    return {**{name: value for name, value in state.items() if name not in frozen}, FROZEN_SHA256: digest}


def load_trained_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Make the module hold such a state; its frozen parameters must be those that the state was trained with."""
    own = {name: value for name, value in state.items() if name != FROZEN_SHA256}
    if FROZEN_SHA256 in state:
        frozen = _frozen(module)
        if not torch.equal(_digest(frozen), state[FROZEN_SHA256]):
            raise UserError(
                f"the model's frozen parameters have SHA-256 {_in_words(_digest(frozen))}; accepted: those that it was "
                f"trained with, {_in_words(state[FROZEN_SHA256])}"
            )
        own = {**frozen, **own}
    module.load_state_dict(own)


def _frozen(module: nn.Module) -> dict[str, Tensor]:
    """The frozen parameters under every name that the state dict has for them."""
    every_name = module.named_parameters(remove_duplicate=False)
    return {name: parameter.detach().cpu() for name, parameter in every_name if not parameter.requires_grad}


def _digest(frozen: Mapping[str, Tensor]) -> Tensor:
    return torch.tensor(list(bytes.fromhex(state_sha256(frozen))), dtype=torch.uint8)


def _in_words(digest: Tensor) -> str:
    return bytes(digest.tolist()).hex()
