"""What an attack is: which clients do not behave, and what they train on or send instead.

Who fails, and how, is a function of seed, round and client alone: the same on every engine, and the same for every
method of a comparison. A larger probability only adds faults to those of a smaller one, and a larger share of attackers
only adds to these.

An attack is simulated where the server is: what attackers send is made up there, of what they computed as if they were
honest, before the rule of combining sees it. It goes through the upload codec as any upload does, without what error
feedback keeps. An attacker's memory stays what an honest client's would be. Only what attackers train on is changed
where they train.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from torch import Tensor

from fedtrip.inputs import Inputs, InputSpec
from fedtrip.registry import Rule
from fedtrip.vectors import Vectors


class Spoiling(Protocol):
    """How one client spoils what it sends."""

    def __call__(self, upload: Vectors) -> Vectors:
        """What it sends in place of its upload."""


@dataclass(frozen=True)
class Faults:
    """What goes wrong with the chosen clients of one round."""

    dropped: tuple[int, ...] = ()
    """clients that never answer; they keep their memory"""
    spoiled: Mapping[int, Spoiling] = field(default_factory=dict)
    """clients that send something else than what they computed"""


@dataclass(frozen=True)
class View:
    """What the attackers of an exchange know when they make up what they send."""

    clients: int
    """|S|, the clients that answer"""
    attackers: int
    """m, how many of them attack"""
    honest: Tensor
    """the honest clients' differences Δ of `w`, a row each in client order, float64, if the attackers collude; their
    own if no honest client answers"""


@dataclass(frozen=True)
class Samples:
    """Some samples as the model sees them, and what an attack may ask about the data set."""

    x: Inputs
    y: Tensor
    classes: int
    brightest: Callable[[], Tensor]
    """gives one input, all of whose numbers are the largest of the training set, normalised as x is"""


@dataclass(frozen=True)
class Attack(Rule):
    """Base of the attacks."""

    crafts: ClassVar[bool] = False
    """Whether attackers send something else than what they computed."""
    colludes: ClassVar[bool] = False
    """Whether they wait for the honest uploads of the exchange, and see them."""
    poisons: ClassVar[bool] = False
    """Whether attackers train on other samples; the targets must be classes then."""
    probes: ClassVar[bool] = False
    """Whether its success is measured, as the share of some changed test samples that are called what it wants."""

    def check(self, inputs: InputSpec, classes: int, clients: int) -> None:
        """Raise `UserError` if so many clients, with such samples, cannot be attacked so."""

    def attackers(self, seed: int, clients: int) -> frozenset[int]:
        """The clients that attack, the same ones in every round and for every method."""
        return frozenset()

    def faults(self, seed: int, t: int, chosen: Sequence[int]) -> Faults:
        """What goes wrong in round t with the chosen clients."""
        return Faults()

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        """What an attacker sends in place of its difference Δ of `w` to what it received, float64.

        Other vectors, and an exchange in which no `w` is sent, are as of an honest client.
        """
        return own

    def poisoned(self, samples: Samples, rng: np.random.Generator) -> tuple[Inputs, Tensor]:
        """Inputs and targets that an attacker trains on in place of its samples; the generator is the client's."""
        return samples.x, samples.y

    def probed(self, y: Tensor) -> Tensor:
        """Which of the test samples with these targets the success is measured on, as booleans."""
        raise NotImplementedError

    def probe(self, samples: Samples) -> tuple[Inputs, Tensor]:
        """Those test samples, changed, with what the attack wants them to be called."""
        raise NotImplementedError
