"""FedMA's matching of hidden units, measured: `python -m tools.fedma_matching` writes docs/fedma.json and fedma.md.

FedMA (Wang et al., 2020) permutes the hidden units of every client before it averages. What of it fits a model of
fixed width is here: rows of a layer against those of a reference, by Hungarian assignment. It is asked how many units
it leaves where they are, if the clients start from one model and if each starts from its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.methods.interface import Memory
from fedtrip.models import build_model
from fedtrip.randomness import permutation, stream
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job, Outcome
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Workbench

ROOT = Path(__file__).parent.parent
STORED = ROOT / "docs" / "fedma.json"
SWEEPS = 5
SEEDS = range(5)
ROUNDS = (1, 5, 20, 50)
"""after which the uploads of a round are matched; clients that train alone do so for as many epochs"""
PARTITIONS = ("dirichlet:0.5", "dirichlet:0.1")
WORK = ((0.01, 1), (0.01, 10), (0.1, 10), (0.3, 10))
"""learning rate and local epochs of a round, where clients start from one model: the usual first, then ever farther"""

Array = NDArray[np.float64]
Layers = list[tuple[Array, Array]]
"""The weight (outputs, inputs) and the bias of every fully connected layer, from the input."""


def matched(clients: Sequence[Layers], samples: Sequence[int]) -> list[list[NDArray[np.intp]]]:
    """Of each client and hidden layer: which of its units goes to each place.

    Layer by layer from the input. A unit's row is its weights, their inputs permuted as the layer before has been, and
    its bias. The reference is at first the client with the most samples, then the mean, weighted by samples, of the
    rows of those that have their places; all clients are assigned in turn, five times. Outputs are not permuted.
    """
    found: list[list[NDArray[np.intp]]] = [[] for _ in clients]
    for depth in range(len(clients[0]) - 1):
        rows = [
            _rows(layers[depth], order[-1] if order else None) for layers, order in zip(clients, found, strict=True)
        ]
        first = max(range(len(clients)), key=lambda k: samples[k])
        reference, placed, order = rows[first], {}, {}
        for k in itertools.chain.from_iterable([range(len(clients))] * SWEEPS):
            order[k] = _assigned(rows[k], reference)
            placed[k] = rows[k][order[k]]
            weights = [samples[j] for j in placed]
            reference = np.average(np.stack(list(placed.values())), axis=0, weights=weights)
        for k, places in order.items():
            found[k].append(places)
    return found


def _rows(layer: tuple[Array, Array], inputs: NDArray[np.intp] | None) -> Array:
    weight, bias = layer
    return np.column_stack([weight if inputs is None else weight[:, inputs], bias])


def _assigned(rows: Array, reference: Array) -> NDArray[np.intp]:
    """Which row goes to each place, so that the sum of ‖row − reference‖² is least."""
    squares = ((rows**2).sum(1)[None, :] + (reference**2).sum(1)[:, None]) - 2 * reference @ rows.T
    places: NDArray[np.intp] = linear_sum_assignment(squares)[1]
    return places


def permuted(layers: Layers, orders: Sequence[NDArray[np.intp]]) -> Layers:
    """The same network with its hidden units in other places: it computes the same."""
    changed, inputs = [], None
    for depth, (weight, bias) in enumerate(layers):
        weight = weight if inputs is None else weight[:, inputs]
        inputs = orders[depth] if depth < len(orders) else None
        changed.append((weight, bias) if inputs is None else (weight[inputs], bias[inputs]))
    return changed


def mean(clients: Sequence[Layers], samples: Sequence[int]) -> Layers:
    """FedAvg's mean, weighted by samples."""
    return [
        tuple(np.average(np.stack(parts), axis=0, weights=samples) for parts in zip(*layers, strict=True))  # type: ignore[misc]
        for layers in zip(*clients, strict=True)
    ]


@dataclass(frozen=True)
class Case:
    """How clients come by the models that are matched."""

    start: str
    """"one model": each round from the global model of FedAvg; "its own": each from its own initial weights, alone"""
    partition: str
    lr: float = 0.01
    epochs: int = 1
    """local epochs of a round; of clients that train alone, 1 for each round of the others"""


CASES = [
    *(Case("one model", partition, lr, epochs) for lr, epochs in WORK for partition in PARTITIONS),
    *(Case("its own", partition) for partition in PARTITIONS),
]


@dataclass(frozen=True)
class Found:
    """What the matching of one round's clients found."""

    units: int
    """hidden units of the clients other than the reference"""
    stayed: int
    """those that were matched with the unit of the same place"""
    is_fedavg: bool
    """whether all were, so that the mean after matching is FedAvg's"""
    plain: float
    """test accuracy of the mean without matching"""
    after: float
    """test accuracy of the mean after matching"""


def measure(case: Case, seed: int, rounds: Sequence[int] = ROUNDS) -> dict[int, Found]:
    """What is found after each of these rounds."""
    federation = _federation(case, seed)
    flat = PreparedModel.of(federation).flat
    uploads = _in_rounds(federation, rounds) if case.start == "one model" else _alone(case, seed, rounds)
    return {
        number: _compared(
            federation, [_layers(flat.state_dict(o.upload)) for o in outcomes], [o.samples for o in outcomes]
        )
        for number, outcomes in uploads
    }


def _federation(case: Case, seed: int, epochs: int | None = None) -> Federation:
    described = Experiment(
        method="fedavg", dataset="digits", model="mlp", partition=case.partition, lr=case.lr,
        local_epochs=epochs or case.epochs, rounds=max(ROUNDS), seed=seed,
    )  # fmt: skip
    return prepare(described)


class _Kept(SerialEngine):
    """An engine that keeps what came up in the last round."""

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        self.last = list(super().work(jobs))
        return iter(self.last)


def _in_rounds(federation: Federation, rounds: Sequence[int]) -> Iterator[tuple[int, list[Outcome]]]:
    """The uploads of these rounds of FedAvg."""
    engine, state = _Kept(federation), initial_state(federation, ClientStore())
    for number in range(1, max(rounds) + 1):
        state.advance(one_round(federation, engine, state))
        if number in rounds:
            yield number, engine.last


def _alone(case: Case, seed: int, rounds: Sequence[int]) -> Iterator[tuple[int, list[Outcome]]]:
    """The models of the clients of round 1, each trained for so many epochs from initial weights of its own."""
    for epochs in rounds:
        federation = _federation(case, seed, epochs)
        bench, flat = Workbench(federation), PreparedModel.of(federation).flat
        chosen = federation.rules.select(
            stream(seed, "selection", 1), 1, federation.experiment.clients, federation.experiment.per_round,
            federation.partition.samples,
        )  # fmt: skip
        inputs, classes = federation.dataset.inputs, federation.dataset.classes
        starts = {k: build_model("mlp", inputs, classes, seed=1000 * (seed + 1) + k) for k in chosen}
        yield epochs, [bench.client(Job(k, 1, 0, flat.model_of(starts[k]), Memory())) for k in chosen]


def _layers(state: Mapping[str, Tensor]) -> Layers:
    """The fully connected layers of a state dict, in the order of its names."""
    names = [name.removesuffix(".weight") for name in state if name.endswith(".weight")]
    return [tuple(state[f"{name}.{part}"].double().numpy() for part in ("weight", "bias")) for name in names]  # type: ignore[misc]


def _compared(federation: Federation, clients: Sequence[Layers], samples: Sequence[int]) -> Found:
    orders = matched(clients, samples)
    first = max(range(len(clients)), key=lambda k: samples[k])
    others = [order for k, order in enumerate(orders) if k != first]
    same = [places == np.arange(len(places)) for order in others for places in order]
    plain, after = (
        _accuracy(federation, mean(models, samples))
        for models in (clients, [permuted(*one) for one in zip(clients, orders, strict=True)])
    )
    return Found(
        units=sum(map(len, same)),
        stayed=int(sum(map(np.sum, same))),
        is_fedavg=all(bool(np.all(places == np.arange(len(places)))) for order in orders for places in order),
        plain=plain,
        after=after,
    )


def outputs(layers: Layers, x: Array) -> Array:
    """What the network computes, with ReLU between its layers."""
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight.T + bias, 0)
    return x @ layers[-1][0].T + layers[-1][1]


def _accuracy(federation: Federation, layers: Layers) -> float:
    dataset = federation.dataset
    x = dataset.normalised(dataset.x_test).double().flatten(1).numpy()
    return float(np.mean(outputs(layers, x).argmax(1) == dataset.y_test.numpy()))


def matched_back(seed: int, *, copies: bool) -> tuple[int, int]:
    """Hidden units that were put in random places before the matching, and how many of them were matched rightly.

    They are those of the clients of round 20 of FedAvg, whose units belong together by their places; or of copies of
    one of these models.
    """
    federation = _federation(CASES[0], seed)
    flat = PreparedModel.of(federation).flat
    ((_, outcomes),) = _in_rounds(federation, [20])
    clients, samples = [_layers(flat.state_dict(o.upload)) for o in outcomes], [o.samples for o in outcomes]
    if copies:
        clients = [clients[0]] * len(clients)
    generator = stream(seed, "shuffled units")
    places = [[permutation(generator, len(bias)) for _, bias in layers[:-1]] for layers in clients]
    orders = matched([permuted(*one) for one in zip(clients, places, strict=True)], samples)
    # where each unit was before it was put elsewhere: the same in all clients, if it was matched rightly
    before = np.array([
        np.concatenate([put[order] for put, order in zip(*one, strict=True)])
        for one in zip(places, orders, strict=True)
    ])  # fmt: skip
    return before[1:].size, int((before[1:] == before[0]).sum())


def measured() -> dict[str, Any]:
    """Everything that is stored."""
    cases = []
    for case in CASES:
        found = [measure(case, seed) for seed in SEEDS]
        cells = {str(number): [asdict(one[number]) for one in found] for number in ROUNDS}
        cases.append({**asdict(case), "after": cells})
    shuffled = {
        name: [matched_back(seed, copies=copies) for seed in SEEDS]
        for name, copies in (("copies", True), ("clients", False))
    }
    return {"seeds": list(SEEDS), "cases": cases, "shuffled": shuffled}


def main() -> None:
    """Measure, unless told to render only, and write the page."""
    from tools.fedma_page import PAGE, page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="write the page again from what is stored")
    if not parser.parse_args().render:
        torch.set_num_threads(1)
        STORED.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(STORED.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
