"""A small causal transformer, built as GPT-2 (Radford et al., 2019) is."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedtrip.models.check import Outputs
from fedtrip.models.sequence import TEXT, has_every_place, places_of


class Attention(nn.Module):
    """softmax(Q·Kᵀ/√d + mask)·V in each head, d the width of a head; a place sees itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.of_inputs = nn.Linear(width, 3 * width)
        self.of_heads = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        count, places, width = x.shape
        split = self.of_inputs(x).view(count, places, 3, self.heads, width // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each (count, heads, places, d)
        fits = queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)
        later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        seen = fits.masked_fill(later, -math.inf).softmax(-1) @ values
        found: Tensor = self.of_heads(seen.transpose(1, 2).reshape(count, places, width))
        return found


class Layer(nn.Module):
    """x + attention(norm(x)), then x + FC(gelu(FC 4·width(norm(x))))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        changed: Tensor = x + self.feed_forward(x)
        return changed


class Transformer(nn.Module):
    """Embeddings of tokens and places; 2 layers of width 64 with 4 heads; norm; FC at every place, or at the last one.

    With 80 places and 90 characters 116,826 parameters.
    """

    title = "small causal transformer: 2 layers of width 64, 4 heads; token ids"
    usual_inputs = TEXT

    def __init__(
        self,
        sample_shape: tuple[int, ...],
        vocabulary: int,
        outputs: Outputs,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
    ) -> None:
        super().__init__()
        places = places_of("transformer", sample_shape)
        self.every_place = has_every_place("transformer", sample_shape, outputs)
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(places, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs.count)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.norm(self.layers(self.tokens(ids) + self.places.weight))
        found: Tensor = self.head(x if self.every_place else x[:, -1])
        return found
