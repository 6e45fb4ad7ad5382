"""How a partition is written: `iid`, `dirichlet:ALPHA`, `orthogonal:CLUSTERS`, `given`."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedtrip.errors import UserError, unknown_name

PARTITIONS: dict[str, str] = {
    "iid": "iid: every sample equally likely for every client",
    "dirichlet": "dirichlet:ALPHA: class probabilities of each client from a Dirichlet distribution, ALPHA above 0",
    "orthogonal": "orthogonal:CLUSTERS: clients and classes in CLUSTERS groups, a client has classes of its group only",
    "given": "given: as the data come split",
}


def parse_partition(spec: str) -> tuple[str, float]:
    """The kind of partition and its number (0 where it has none)."""
    kind, colon, text = spec.partition(":")
    if kind not in PARTITIONS:
        raise unknown_name("partition", kind, [described.split(": ")[0] for described in PARTITIONS.values()])
    if kind in ("iid", "given"):
        if colon:
            raise UserError(f"partition '{spec}' is not accepted: '{kind}' has no parameter; accepted: {kind}")
        return kind, 0.0
    if kind == "dirichlet":
        alpha = _number(text, float)
        if alpha is None or not (math.isfinite(alpha) and alpha > 0):
            raise UserError(
                f"partition '{spec}' is not accepted; accepted: dirichlet:ALPHA with a finite ALPHA above 0"
            )
        return kind, alpha
    clusters = _number(text, int)
    if clusters is None or clusters < 1:
        raise UserError(f"partition '{spec}' is not accepted; accepted: orthogonal:CLUSTERS with an integer from 1")
    return kind, clusters


def _number(text: str, read: Callable[[str], float]) -> float | None:
    try:
        return read(text)
    except ValueError:
        return None
