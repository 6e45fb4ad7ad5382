"""What the clients of one exchange send, added up as it arrives: all that a method asks for, and no more.

With the mean as rule of combining and the usual weights, the means and totals that a method declares are summed in
client order while the next clients are still at work, so that no two uploads need to be held at the same time. Other
rules, and a method that weights by what all clients say, look at all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedtrip.combining.interface import Combine
from fedtrip.methods.interface import Method, Upload, Uploads
from fedtrip.vectors import Vectors, add_weighted, copied

BUFFERS, COUNTERS = "buffers", "counters"
"""A module's own statistics, outside every method: they are combined like its vectors. Integers have no mean: theirs
is the maximum, and with a rule that is to withstand liars the median, the lower one of two."""


class Tally:
    """The uploads of one exchange. `received` is what the clients were sent, `expected` what they send."""

    def __init__(
        self, method: Method, combine: Combine, received: Mapping[str, Tensor], expected: Vectors, *, keep_all: bool
    ) -> None:
        self._method, self._combine, self._received, self._expected = method, combine, received, expected
        self._means = [name for name in (*method.means, BUFFERS) if name in expected]
        self._totals = [name for name in method.totals if name in expected]
        self._sums_at_once = combine.is_mean and type(method).weights is Method.weights
        self._keeps = keep_all or method.needs_each or not self._sums_at_once
        self._sums: Vectors = {}
        self._plain_sums: Vectors = {}
        self._counters: Tensor | None = None
        self._weights: list[float] = []
        self.numbers = sum(expected[name].numel() for name in self._means)
        """how many numbers of each upload are combined"""
        self.count = 0
        """how many uploads there are"""
        self.kept: list[Upload] = []
        """every upload, if somebody asks for them"""

    def add(self, upload: Upload, *, is_borrowed: bool = False) -> None:
        """Take an accepted upload; they come in client order, so that no engine can change a bit of the sums.

        Of one that `is_borrowed` nothing is kept but copies.
        """
        self.count += 1
        if self._sums_at_once:
            self._add_weighted(upload, self._method.weights([upload])[0])
        for name in self._totals:
            _add(self._plain_sums, name, upload[name], 1.0)
        if COUNTERS in upload.vectors and self._combine.is_mean:
            counters = upload[COUNTERS]
            self._counters = counters.clone() if self._counters is None else torch.maximum(self._counters, counters)
        if self._keeps:
            self.kept.append(replace(upload, vectors=copied(upload.vectors)) if is_borrowed else upload)

    def _add_weighted(self, upload: Upload, weight: float) -> None:
        self._weights.append(weight)
        for name in self._means if self._combine.is_mean else ():
            _add(self._sums, name, upload[name], weight)

    def combined(self, state: Vectors, rng: np.random.Generator) -> tuple[Uploads, Vectors, Vectors]:
        """What the method gets, the module's buffers after the exchange, and the state of the rule of combining.

        To be asked for once: the sums are its caller's then.
        """
        if not self._sums_at_once:
            for upload, weight in zip(self.kept, self._method.weights(self.kept), strict=True):
                self._add_weighted(upload, weight)
        total = sum(self._weights)
        if self._combine.is_mean:
            means = {name: self._sums.pop(name).div_(total) for name in list(self._sums)}  # no longer held here
        else:
            means, state = self._robust_means([weight / total for weight in self._weights], state, rng)
        buffers: Vectors = {}
        if BUFFERS in means:
            buffers[BUFFERS] = means.pop(BUFFERS).to(torch.float32)
        if self._counters is not None:
            buffers[COUNTERS] = self._counters
        elif not self._combine.is_mean and COUNTERS in self._expected:
            buffers[COUNTERS] = torch.stack([upload[COUNTERS] for upload in self.kept]).median(dim=0).values
        kept = tuple(self.kept) if self._method.needs_each else ()
        totals, self._plain_sums = self._plain_sums, {}
        return Uploads(self.count, means, totals, kept), buffers, state

    def _robust_means(self, weights: list[float], state: Vectors, rng: np.random.Generator) -> tuple[Vectors, Vectors]:
        """What another rule than the mean makes of the differences to what was received, added to it."""
        sent = {name: self._received[name].double() for name in self._means if name in self._received}
        differences = {
            name: torch.stack([upload[name].double() - sent.get(name, 0.0) for upload in self.kept])
            if self.kept
            else torch.empty((0, *self._expected[name].shape), dtype=torch.float64)
            for name in self._means
        }
        combined, state = self._combine(differences, torch.tensor(weights, dtype=torch.float64), state, rng)
        return {name: sent.get(name, 0.0) + vector for name, vector in combined.items()}, state


def _add(sums: Vectors, name: str, vector: Tensor, weight: float) -> None:
    """sum ← sum + weight·vector, in float64."""
    if name not in sums:
        sums[name] = torch.zeros_like(vector, dtype=torch.float64)
    add_weighted(sums[name], vector, weight)
