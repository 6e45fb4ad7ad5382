"""Every built-in model learns in two rounds, with the same bits on one and on two workers."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip.inputs import InputSpec
from fedtrip.models import MODELS, build_model, takes_tokens
from fedtrip.tasks.interface import Goal, Task
from fedtrip.vectors import state_sha256

SIDES = {"cnn": 28, "resnet18": 4, "resnet18-bn": 4}
CLASSES, PLACES, TOKENS = 3, 6, 9


def made_data(name):
    """24 samples for training and 6 for testing, whose class can be seen."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(30) % CLASSES
    if takes_tokens(name):
        x = torch.randint(0, TOKENS, (30, PLACES), generator=generator)
        x[:, -1] = y
    else:
        side = SIDES.get(name, 12)
        x = torch.rand(30, 1, side, side, generator=generator) + y[:, None, None, None]
    return {"x_train": x[:24], "y_train": y[:24], "x_test": x[24:], "y_test": y[24:]}


def run(workers, **fields):
    data = fields.pop("data")
    fields = {"rounds": 2, "clients": 3, "per_round": 2, "partition": "iid", "batch_size": 5, "lr": 0.02, **fields}
    return fedtrip.run(fedtrip.Experiment(**fields), data=data, workers=workers)


@pytest.mark.parametrize("method", ["fedavg", "fedtrip"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name.startswith("resnet18") else []) for name in MODELS]
)
def test_two_rounds_on_one_and_on_two_workers(name, method):
    one, two = (run(workers, model=name, method=method, data=made_data(name)) for workers in (1, 2))
    assert state_sha256(one.module.state_dict()) == state_sha256(two.module.state_dict())
    trained = sum(parameter.numel() for parameter in one.module.parameters())
    buffers = sum(4 if b.is_floating_point() else 8 for b in one.module.buffers() for _ in range(b.numel()))
    assert one.records[-1].bytes_up == 2 * (4 * trained + buffers)
    data = made_data(name)
    inputs = InputSpec.tokens(PLACES, vocabulary=TOKENS) if takes_tokens(name) else InputSpec.of(data["x_train"])
    initial = build_model(name, inputs, CLASSES, one.experiment.seed).state_dict()
    for key, value in one.module.state_dict().items():
        assert value.isfinite().all(), key
        assert not torch.equal(value, initial[key]), key


@dataclass(frozen=True)
class NextToken(Task):
    """cross entropy at every place"""

    title = "the next token at every place"
    goal = Goal("loss", higher_is_better=False)
    targets = "tokens"

    def outputs(self, classes):
        return classes

    def output_shape(self, classes, y):
        return (y.shape[1], classes)

    def count(self, y):
        return y.numel()

    def summed_loss(self, outputs, y):
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="sum")

    def sums(self, outputs, y):
        return {"loss": float(self.summed_loss(outputs, y)) / y.shape[1]}


@pytest.mark.parametrize(("name", "lr"), [("lstm", 0.02), ("transformer", 0.005)])
def test_a_token_at_every_place_is_learnt(name, lr):
    """The next token is the one before, plus one: a model that sees it soon knows. ln 9 is chance."""
    starts = torch.randint(0, TOKENS, (80, 1), generator=torch.Generator().manual_seed(0))
    text = (starts + torch.arange(PLACES + 1)) % TOKENS
    x, y = text[:, :-1], text[:, 1:]
    data = fedtrip.from_arrays(x[:60], y[:60], x[60:], y[60:], targets="tokens")
    fields = {"model": name, "task": NextToken(), "optimizer": "adam", "lr": lr, "method": "fedavg"}
    one, two = (run(workers, rounds=3, local_epochs=4, data=data, **fields) for workers in (1, 2))
    assert state_sha256(one.module.state_dict()) == state_sha256(two.module.state_dict())
    assert one.final_model_score < 0.5 * math.log(TOKENS)


def test_moon_compares_the_states_of_a_sequence():
    for name in (name for name in MODELS if takes_tokens(name)):
        moon, fedavg = (
            run(1, model=name, method=method, rounds=3, data=made_data(name)) for method in ("moon", "fedavg")
        )
        assert state_sha256(moon.module.state_dict()) != state_sha256(fedavg.module.state_dict())


def test_moon_and_a_model_without_a_representation_are_refused_together():
    with pytest.raises(fedtrip.UserError, match="depends on no trained parameter"):
        run(1, model="logistic", method="moon", data=made_data("logistic"))


def test_a_last_batch_of_one_is_refused_where_batch_norm_sees_one_value():
    data = made_data("resnet18-bn")
    tiny = {name: x[..., :2, :2] if name.startswith("x") else x for name, x in data.items()}
    with pytest.raises(fedtrip.UserError, match="last batch is a single one, on which the model cannot be trained"):
        run(1, model="resnet18-bn", batch_size=7, data=tiny)
    assert isinstance(run(1, model="resnet18", batch_size=7, rounds=1, data=tiny).module, nn.Module)
