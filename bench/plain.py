"""The baseline: federated averaging as one writes it with PyTorch's own parts, one thread."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class PlainLoop:
    """FedAvg with nn.Module, DataLoader, optim.SGD and deepcopy; evaluation in batches of 1000 under no_grad."""

    def __init__(
        self, module: nn.Module, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], shares: list[list[int]]
    ) -> None:
        self.model = copy.deepcopy(module)
        data = TensorDataset(*train)
        self.clients = [DataLoader(Subset(data, share), batch_size=50, shuffle=True) for share in shares]
        self.test = DataLoader(TensorDataset(*test), batch_size=1000)

    def round(self) -> float:
        """Train every client from the global model, average the parameters, evaluate."""
        states = [self._train(loader) for loader in self.clients]
        average = copy.deepcopy(states[0])
        for name in average:
            for state in states[1:]:
                average[name] += state[name]
            average[name] = average[name] / len(states)
        self.model.load_state_dict(average)
        return self._accuracy()

    def _train(self, loader: DataLoader[tuple[Tensor, ...]]) -> dict[str, Tensor]:
        model = copy.deepcopy(self.model)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        return model.state_dict()

    def _accuracy(self) -> float:
        self.model.eval()
        correct = total = 0
        with torch.no_grad():
            for x, y in self.test:
                correct += int((self.model(x).argmax(1) == y).sum())
                total += len(y)
        return correct / total
