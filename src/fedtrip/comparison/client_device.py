"""How long a comparison's runs would take on a given device: an estimate from what was counted, not a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedtrip.errors import UserError
from fedtrip.rounds.record import RoundRecord

FORMULA = (
    "seconds = Σ over rounds of MACs/(MAC/s) + 8·bytes down/downlink + 8·bytes up/uplink, of each round's mean "
    "client; clients are equal and work at the same time, the server costs nothing"
)


@dataclass(frozen=True)
class ClientDevice:
    """A client's device: multiply-adds a second, and its links in bit/s."""

    macs_per_second: float
    downlink: float
    uplink: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise UserError(f"device {name} is {value!r}; accepted: a finite number above 0")

    def seconds(self, records: Sequence[RoundRecord]) -> float:
        """The time of these rounds: computing and both transfers of the mean client."""
        return math.fsum(
            record.macs / len(record.clients) / self.macs_per_second
            + 8 * record.bytes_down / len(record.clients) / self.downlink
            + 8 * record.bytes_up / len(record.clients) / self.uplink
            for record in records
        )
