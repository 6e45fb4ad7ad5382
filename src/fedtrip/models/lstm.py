"""The character LSTM that McMahan et al. (2017) and LEAF train on Shakespeare's plays."""

from __future__ import annotations

from torch import Tensor, nn

from fedtrip.models.check import Outputs
from fedtrip.models.sequence import TEXT, has_every_place, places_of


class LSTM(nn.Module):
    """Embedding 8; two LSTM layers of 256; FC at every place of the sequence, or at its last one.

    With 90 characters 822,570 parameters, 2,048 more than where an LSTM has one bias, as in TensorFlow.
    """

    title = "character LSTM: embedding 8, two layers of 256; token ids"
    usual_inputs = TEXT

    def __init__(
        self,
        sample_shape: tuple[int, ...],
        vocabulary: int,
        outputs: Outputs,
        embedding: int = 8,
        hidden: int = 256,
        layers: int = 2,
    ) -> None:
        super().__init__()
        places_of("lstm", sample_shape)
        self.every_place = has_every_place("lstm", sample_shape, outputs)
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, outputs.count)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(ids))
        found: Tensor = self.head(states if self.every_place else states[:, -1])
        return found
