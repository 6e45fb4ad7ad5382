"""The next letter of a text: token ids as inputs, a token at each place as targets, a recurrent network of one's own.

The text is drawn from a Markov chain: after each of eight letters one follows with probability 0.8, else any. So no
model guesses more than 82.5 % of the letters on average, and the least perplexity is 2.23.
"""

import numpy as np
import torch
from torch import nn

import fedtrip

LETTERS, LENGTH, SAMPLES = 8, 12, 1200
random = np.random.default_rng(0)
follows = random.permutation(LETTERS)
text = random.integers(0, LETTERS, (SAMPLES, LENGTH + 1))
for place in range(LENGTH):
    usual = random.random(SAMPLES) < 0.8
    text[usual, place + 1] = follows[text[usual, place]]
inputs, targets = text[:, :-1], text[:, 1:].copy()
targets[:, 0] = -100  # a place that does not count, as padding would not

data = {"x_train": inputs[:1000], "y_train": targets[:1000], "x_test": inputs[1000:], "y_test": targets[1000:]}


class NextLetter(nn.Module):
    """Logits of the next letter at each place: (batch, places) → (batch, places, letters)."""

    def __init__(self) -> None:
        super().__init__()
        self.look_up = nn.Embedding(LETTERS, 16)
        self.remember = nn.LSTM(16, 32, batch_first=True)
        self.guess = nn.Linear(32, LETTERS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.guess(self.remember(self.look_up(tokens))[0])


task = {"name": "tokens", "score": "perplexity"}  # less is better
experiment = fedtrip.Experiment(
    task=task, method="fedavg", rounds=15, batch_size=20, lr=0.01, optimizer="adam", target=3.0
)
result = fedtrip.run(experiment, data=data, model=NextLetter)
last = result.records[-1].scores
print(f"accuracy {last['accuracy']:.1%}, perplexity {last['perplexity']:.2f}, to 3.0 in {result.rounds_to(3.0)} rounds")
