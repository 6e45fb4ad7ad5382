"""What each method costs one client in one round, for any model: Table 8 evaluated, and what really travels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from fedtrip.data import from_arrays
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.inputs import InputSpec, SampleShape, spec_of
from fedtrip.methods.interface import Method, make_method
from fedtrip.runs.running import run_federation
from fedtrip.training.costs import pass_cost, symbols_of

SETTLED_ROUND = 3
"""From this round on every method sends and keeps what it does in all later ones."""


@dataclass(frozen=True)
class MethodCost:
    """One method's costs, for one client and one round."""

    method: str
    formula: str | None
    """attaching operations in the letters of the paper's Table 8; None if the method does not declare them"""
    from_paper: bool
    attaching_mflops: float | None
    relative: float | None
    """attaching operations over FedAvg's own training, E·n·(FP+BP)"""
    bytes_down: int
    bytes_up: int
    bytes_stored: int
    """what the client keeps between its rounds"""


def method_costs(
    methods: Sequence[str],
    *,
    module: nn.Module,
    model: str,
    dataset: str,
    inputs: SampleShape,
    classes: int,
    samples: int,
    epochs: int,
    batch_size: int,
    refused: dict[str, str] | None = None,
) -> list[MethodCost]:
    """The costs of each method with this model.

    A method that the model does not suit is noted in `refused` with the reason, and left out; without that it is an
    error.
    """
    cost = pass_cost(module, inputs)
    symbols = symbols_of(
        samples=samples,
        epochs=epochs,
        batch_size=batch_size,
        parameters=sum(p.numel() for p in module.parameters() if p.requires_grad),
        forward=cost.forward,
        backward=cost.training - cost.forward,
        C=cost.C,
        r=cost.r,
        h=cost.h,
    )
    results = []
    for name, method in _chosen(methods, model, dataset):
        attaching = method.attaching(symbols)
        try:
            down, up, stored = _what_travels(method, module, spec_of(inputs), classes)
        except UserError as problem:
            if refused is None:
                raise
            refused[name] = str(problem)
            continue
        results.append(
            MethodCost(
                method=name,
                formula=None if attaching is None else attaching.formula,
                from_paper=attaching is not None and attaching.from_paper,
                attaching_mflops=None if attaching is None else attaching.flops / 1e6,
                relative=None if attaching is None else attaching.flops / (epochs * samples * cost.training),
                bytes_down=down,
                bytes_up=up,
                bytes_stored=stored,
            )
        )
    return results


def _chosen(methods: Sequence[str], model: str, dataset: str) -> Iterator[tuple[str, Method]]:
    """The methods with their default options; SCAFFOLD with both of its own, since the paper counts the first."""
    for name in methods:
        if name == "scaffold":
            for option in ("I", "II"):
                yield f"scaffold {option}", make_method(name, {"option": option}, model=model, dataset=dataset)
        else:
            yield name, make_method(name, {}, model=model, dataset=dataset)


def _what_travels(method: Method, module: nn.Module, inputs: InputSpec, classes: int) -> tuple[int, int, int]:
    """Bytes down, up and kept, seen in a run of one client with a handful of samples."""
    count = max(classes, 2)
    x, y = inputs.zeros(count), torch.arange(count) % classes
    experiment = Experiment(
        method=method, clients=1, per_round=1, samples_per_client=2, batch_size=2, partition="iid",
        rounds=SETTLED_ROUND, eval_every=SETTLED_ROUND, lr=1e-6,
    )  # fmt: skip
    data = from_arrays(x, y, x, y, mean=(0.0,), std=(1.0,), classes=classes)
    federation = prepare(experiment, model=module, data=data)
    last = run_federation(federation, workers=1).records[-1]
    return last.bytes_down, last.bytes_up, last.client_memory
