"""What the attackers of an exchange send, made up where the server is: the same on every engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedtrip.attacks.interface import View
from fedtrip.codecs.interface import StreamOf
from fedtrip.experiment.federation import Federation
from fedtrip.methods.interface import Upload
from fedtrip.randomness import stream
from fedtrip.training.client import codec_streams
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Attackers:
    """The attackers among the clients that answer in one exchange; none if they send what they computed."""

    federation: Federation
    t: int
    exchange: int
    received: Mapping[str, Tensor]
    """what the clients were sent in this round"""
    expected: Vectors
    clients: Sequence[int]
    """all that answer"""
    attacking: Collection[int]

    @classmethod
    def among(
        cls,
        clients: Sequence[int],
        federation: Federation,
        t: int,
        exchange: int,
        received: Mapping[str, Tensor],
        expected: Vectors,
    ) -> Attackers:
        """Those of the clients that answer, if a `w` is sent in this exchange."""
        crafts = federation.rules.attack.crafts and "w" in expected
        attacking = federation.attackers.intersection(clients) if crafts else ()
        return cls(federation, t, exchange, received, expected, clients, attacking)

    @property
    def wait(self) -> bool:
        """Whether they send only after they have seen the honest uploads."""
        return bool(self.attacking) and self.federation.rules.attack.colludes

    def sent(self, upload: Upload) -> Upload:
        """What the server gets of a client that need not wait."""
        if upload.client not in self.attacking:
            return upload
        return self._crafted(upload, View(len(self.clients), len(self.attacking), self._differences([])))

    def sent_together(self, uploads: Sequence[Upload]) -> list[Upload]:
        """What the server gets of all clients, of which the attackers saw the honest ones' uploads."""
        if not uploads:
            return []
        honest = [upload for upload in uploads if upload.client not in self.attacking]
        view = View(len(uploads), len(uploads) - len(honest), self._differences(honest or uploads))
        return [self._crafted(one, view) if one.client in self.attacking else one for one in uploads]

    def _crafted(self, upload: Upload, view: View) -> Upload:
        """An attacker's upload: made up, and then as the codec leaves it."""
        rules, seed = self.federation.rules, self.federation.experiment.seed
        keys = (self.t, upload.client, self.exchange)
        (own,) = self._differences([upload])
        made = rules.attack.crafted(own, view, stream(seed, "attack", *keys))
        w = (self._reference() + made).to(upload["w"].dtype)
        return replace(upload, vectors={**upload.vectors, "w": self._through_codec(w, codec_streams(seed, *keys))})

    def _through_codec(self, w: Tensor, streams: StreamOf) -> Tensor:
        """What the server decodes of it; not a number where the codec cannot carry it, so that it is refused."""
        codec = self.federation.rules.upload_codec
        try:
            payload, _ = codec.encode({"w": w}, self.received, {}, streams)
            return codec.decode(payload, self.received, {"w": self.expected["w"]}, streams)["w"]
        except ValueError:
            return torch.full_like(w, torch.nan)

    def _differences(self, uploads: Sequence[Upload]) -> Tensor:
        """Δ of `w`, a row for each upload, in float64."""
        reference = self._reference()
        rows = [upload["w"].double() - reference for upload in uploads]
        return torch.stack(rows) if rows else torch.empty(0, *self.expected["w"].shape, dtype=torch.float64)

    def _reference(self) -> Tensor | float:
        return self.received["w"].double() if "w" in self.received else 0.0
