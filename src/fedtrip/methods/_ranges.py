"""What a method's options are tuned over: a range of numbers, or some values to choose from.

Written as text, `0.001..1:log` is a range on a logarithmic scale, `0..1` (or `0..1:linear`) one on a linear scale, and
`1,2,5` are values to choose from. A number of a range has three digits, so that one can read it and type it again.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedtrip import fixed_math
from fedtrip.errors import UserError, shortened

Scale = Literal["linear", "log"]
FORMS = "LOW..HIGH:log, LOW..HIGH (on a linear scale), or values, comma-separated"
"""How the values to tune over are written."""


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`: equally likely, or with `log` their logarithms are."""

    low: float
    high: float
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise UserError(f"range '{self}' is empty; accepted: two finite numbers, the lower first")
        if self.scale not in get_args(Scale):
            raise UserError(f"range '{self}': scale '{self.scale}' is unknown; accepted: {', '.join(get_args(Scale))}")
        if self.scale == "log" and self.low <= 0:
            raise UserError(f"range '{self}' has no logarithm at {self.low:g}; accepted: numbers above 0, or linear")

    def at(self, u: float) -> float:
        """The value at a share u of the way: low + u·(high − low), or low·(high/low)^u, to three digits."""
        if self.scale == "log":
            start, end = fixed_math.log(float(self.low)), fixed_math.log(float(self.high))
            value = fixed_math.exp(start + u * (end - start))
        else:
            value = self.low + u * (self.high - self.low)
        return min(max(float(f"{value:.3g}"), self.low), self.high)

    def is_near_an_end(self, value: float) -> bool:
        """Whether a value of the range lies in the first or the last twentieth of it."""
        near = (self.at(0.05), self.at(0.95))
        return self.low <= value <= self.high and not near[0] <= value <= near[1]

    @property
    def ends(self) -> tuple[float, float]:
        """The values that must be accepted if all are to be."""
        return self.low, self.high

    @property
    def count(self) -> float:
        """How many values there are to draw."""
        return math.inf

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}:{self.scale}"


@dataclass(frozen=True, init=False)
class Choices:
    """Some values, equally likely."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        if not values:
            raise UserError("there is nothing to choose from; accepted: one value at least")
        if any(value in values[:place] for place, value in enumerate(values)):
            raise UserError(f"'{','.join(map(str, values))}' has a value twice; accepted: each value once")
        object.__setattr__(self, "values", values)

    def at(self, u: float) -> Any:
        """The value at a share u of the way."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def is_near_an_end(self, value: Any) -> bool:
        """Values to choose from have no ends."""
        return False

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that must be accepted if all are to be."""
        return self.values

    @property
    def count(self) -> float:
        """How many values there are to draw."""
        return len(self.values)

    def __str__(self) -> str:
        return ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)


Ranges = Mapping[str, Range | Choices]
"""What is tuned, by name."""


def read_range(text: str) -> Range | Choices:
    """The range or the values that a text stands for."""
    try:
        if ".." not in text:
            return Choices(*(_value(part) for part in text.split(",")))
        ends, _, scale = text.partition(":")
        low, high = (float(end) for end in ends.split(".."))
        return Range(low, high, scale.strip() or "linear")  # type: ignore[arg-type]  # checked there
    except UserError:
        raise
    except ValueError:
        raise UserError(f"'{shortened(text)}' cannot be read; accepted: {FORMS}") from None


def _value(text: str) -> Any:
    """A value as TOML would read it, otherwise as text."""
    if not text.strip():
        raise ValueError
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()
