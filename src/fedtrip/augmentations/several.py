"""Several augmentations, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedtrip.augmentations.interface import Augment
from fedtrip.errors import UserError
from fedtrip.families import AUGMENT
from fedtrip.inputs import Inputs, InputSpec


@dataclass(frozen=True)
class Several(Augment):
    """the rules from left to right, all drawing from the step's generator in this order"""

    title = "several rules one after the other, such as flip+crop:2"
    parameter = "rules"

    rules: str
    """built-in rules joined by +"""

    def __post_init__(self) -> None:
        self.parts  # noqa: B018  # wrong ones are refused at once

    @cached_property
    def parts(self) -> tuple[Augment, ...]:
        """The rules."""
        named = [AUGMENT.read(part) for part in self.rules.split("+")]
        for choice in named:  # code of one's own is named where everybody sees it, not in here
            if ":" in choice.name or choice.name == "several":
                raise UserError(
                    f"augment '{self.rules}' joins '{choice}'; accepted: built-in rules, such as flip+crop:2; your own "
                    "class may call others itself"
                )
        return tuple(AUGMENT.make(choice) for choice in named)

    def __call__(self, x: Inputs, rng: np.random.Generator) -> Inputs:
        for part in self.parts:
            x = part(x, rng)
        return x

    def check(self, inputs: InputSpec) -> None:
        for part in self.parts:
            part.check(inputs)
