"""Whether the device that an experiment names is here."""

from __future__ import annotations

import torch

from fedtrip.errors import UserError

ACCEPTED = "cpu, cuda, cuda:INDEX or mps"


def checked_device(name: str) -> torch.device:
    """The device; `UserError` if torch does not know it or this machine does not have it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device is '{name}'; accepted: {ACCEPTED}") from None
    if device.type == "cpu":
        return device
    try:
        there = torch.get_device_module(device.type)
        count = there.device_count() if there.is_available() else 0
    except (AttributeError, RuntimeError):
        count = 0
    if (device.index or 0) >= count:
        told = f"there are {count} of that kind" if count else "there is none of that kind"
        raise UserError(f"device is '{name}', but {told} on this machine, or torch was built without; accepted: cpu")
    return device
