"""What decides a client's faults in a round: five numbers that all simulated faults share.

So a client that drops out at 10 % also drops out at 20 %, and one that sends nonsense sends the same nonsense.
"""

from __future__ import annotations

from typing import NamedTuple

from fedtrip.randomness import stream, uniforms


class Draw(NamedTuple):
    """Numbers in [0, 1) for one client and round."""

    drops: float
    corrupts: float
    kind: float
    vector: float
    element: float


def draw(seed: int, t: int, client: int) -> Draw:
    """The numbers of this client in this round."""
    return Draw(*uniforms(stream(seed, "client faults", t, client), 5).tolist())
