"""A device that is not there: its tensors say that they are on it, compute on the CPU, and refuse to meet others.

So the placement of everything that local training touches is tried on a machine without a GPU: a tensor that was left
on the CPU is an error, as on a GPU, and the numbers must be the CPU's to the bit.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"


class OnDevice(torch.Tensor):
    """A tensor that says it is on the device; `inner` has its numbers."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> OnDevice:
        self: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=torch.device(NAME, 0), requires_grad=False,
        )  # fmt: skip
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return computed(func, args, kwargs or {})


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do an operation on the numbers; its results are where its arguments are."""
    name = func.overloadpacket.__name__
    target = kwargs.get("device")
    goes_there = target is not None and torch.device(target).type == NAME
    goes_away = target is not None and not goes_there
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = any(isinstance(tensor, OnDevice) for tensor in tensors)
    if there and name not in ("copy_", "_to_copy") and (
        strangers := [t for t in tensors if not isinstance(t, OnDevice) and t.dim() > 0]
    ):  # fmt: skip
        raise RuntimeError(f"{name}: a tensor of shape {tuple(strangers[0].shape)} is on the CPU, others are not")
    if name == "copy_":
        (_inner(args[0])).copy_(_inner(args[1]))
        return args[0]
    inner_args, inner_kwargs = pytree.tree_map(_inner, (args, kwargs))
    if target is not None:
        inner_kwargs["device"] = torch.device("cpu")
    result = func(*inner_args, **inner_kwargs)
    if func._schema.is_mutable and name.endswith("_"):
        return None if result is None else args[0]
    if (there and not goes_away) or goes_there:
        return pytree.tree_map(lambda leaf: OnDevice(leaf) if type(leaf) is torch.Tensor else leaf, result)
    return result


def _inner(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, OnDevice) else leaf


class Pretending(TorchDispatchMode):
    """While it is on, tensors can be made on the device and brought there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return computed(func, args, kwargs or {})


def set_up() -> None:
    """Make the name known to torch; once a process."""
    if getattr(torch, NAME, None) is None:
        there = SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 1, manual_seed_all=lambda _: None,
            get_rng_state=lambda _: torch.empty(0), set_rng_state=lambda *_: None,
            is_initialized=lambda: True, current_device=lambda: 0, _is_in_bad_fork=lambda: False,
        )  # fmt: skip
        _setup_privateuseone_for_python_backend(NAME, backend_module=there)
