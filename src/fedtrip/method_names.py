"""The names of the built-in methods, known without importing them and PyTorch."""

from __future__ import annotations

from fedtrip.errors import unknown_name

METHOD_NAMES = (
    "fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn", "scaffold", "mimelite", "feddane", "fedgkd",
)  # fmt: skip


def check_method_name(name: str) -> None:
    """Refuse a name that no method has; `package.module:Class` is the user's own, found out when it is imported."""
    if name not in METHOD_NAMES and ":" not in name:
        raise unknown_name("method", name, METHOD_NAMES, also="your own as package.module:Class")
