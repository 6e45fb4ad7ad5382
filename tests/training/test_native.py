"""The native engine trains and evaluates as torch does: every method, optimizer, task and kind of layer."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.methods.interface import Method, Reply
from fedtrip.models.chain import trace_chain
from fedtrip.native.chain import Mode
from fedtrip.tasks.classification import Classification
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Question, Workbench

SMALL = {"rounds": 3, "clients": 4, "per_round": 3, "batch_size": 8, "partition": "iid", "lr": 0.05}
METHODS = sorted(METHOD.names())
CLOSE = 5e-4
LESS_CLOSE = {"feddecorr": 5e-3}
"""A feature that is nearly the same in a whole batch has a standard deviation near 1e-4, and FedDecorr's gradient is
divided by it: rounding with it."""


@pytest.fixture(scope="module")
def pictures():
    """Small colour images in four classes that can be told apart; an odd number, so that batches have a rest."""
    random = np.random.default_rng(5)
    labels = np.arange(131) % 4
    centres = random.integers(0, 200, (4, 3, 28, 28))
    pixels = np.clip(centres[labels] + random.integers(-40, 55, (131, 3, 28, 28)), 0, 255).astype(np.uint8)
    return {"x_train": pixels[:101], "y_train": labels[:101], "x_test": pixels[101:], "y_test": labels[101:]}


class Functional(nn.Module):
    """A module of one's own, its forward pass written with functions."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3, stride=2, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(5 * 7 * 7, 9)
        self.last = nn.Linear(9, 4)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.convolution(x)), 2)
        x = torch.tanh(self.hidden(x.view(x.size(0), -1)))
        return self.last(self.dropout(x))


def functional_net(dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        return Functional(dropout)


def both(data=None, model=None, **fields):
    """The same experiment by the native engine and by torch."""
    return [
        fedtrip.run(Experiment(**{**SMALL, **fields}, compute=compute), data=data, model=model, workers=1)
        for compute in ("native", "torch")
    ]


def apart(one, other):
    return max(float((one.state[name] - other.state[name]).abs().max()) for name in one.state)


def check_alike(native, by_torch, close=CLOSE):
    """The same run up to rounding, at the same costs."""
    assert native.experiment.compute == "native"
    assert by_torch.experiment.compute == "torch"
    assert apart(native, by_torch) < close
    for mine, theirs in zip(native.records, by_torch.records, strict=True):
        assert mine.scores == pytest.approx(theirs.scores, abs=1e-4)
        assert (mine.macs, mine.bytes_up, mine.client_memory) == (theirs.macs, theirs.bytes_up, theirs.client_memory)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_the_mlp(method):
    native, by_torch = both(method=method, samples_per_client=101)
    check_alike(native, by_torch, LESS_CLOSE.get(method, CLOSE))
    assert native.acceleration == ("native chain: flatten, linear 64→100, ReLU, linear 100→10",)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_the_cnn(method, pictures):
    native, by_torch = both(pictures, functional_net(), method=method)
    check_alike(native, by_torch, LESS_CLOSE.get(method, CLOSE))


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": "adam", "lr": 0.003},
        {"optimizer": "adamw", "lr": 0.003, "weight_decay": 0.1},
        {"momentum": 0.0},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "method": "fedprox"},
        {"clip": "0.5"},
        {"clip": "gradient:0.5", "method": "fedprox", "weight_decay": 0.05},
        {"clip": "0.5", "method": "moon", "optimizer": "adam", "lr": 0.003},
        {"local_epochs": 3, "keep_optimizer_state": True},
        {"lr_schedule": "step:1", "local_epochs": 2},
        {"batch_size": 1000},
        {"batch_size": 1, "lr": 0.002},
        {"representation": "hidden", "method": "moon"},
        {"representation": "convolution", "method": "moon"},
        {"upload_codec": "int8"},
    ],
    ids=str,
)
def test_every_way_to_train(fields, pictures):
    check_alike(*both(pictures, functional_net(), **fields))


def test_the_papers_cnn(pictures):
    native, by_torch = (
        fedtrip.run(Experiment(**SMALL, model="cnn", compute=compute), data=pictures, workers=1)
        for compute in ("native", "torch")
    )
    check_alike(native, by_torch)
    assert "linear 400→120" in native.acceleration[0]


def test_regression():
    random = np.random.default_rng(2)
    x = random.normal(size=(90, 6)).astype(np.float32)
    y = (x @ random.normal(size=6) + 0.3).astype(np.float32)
    data = {"x_train": x[:60], "y_train": y[:60], "x_test": x[60:], "y_test": y[60:]}
    for fields in ({}, {"method": "moon"}, {"method": "feddane"}, {"optimizer": "adam"}):
        native, by_torch = both(data, task="regression", **fields)
        check_alike(native, by_torch)


def test_a_task_of_ones_own_loss_is_not_replaced_by_the_cross_entropy(pictures):
    native, by_torch = both(pictures, functional_net(), task=f"{__name__}:Smoothed")
    check_alike(native, by_torch)
    plain, _ = both(pictures, functional_net())
    assert apart(native, plain) > 1e-3
    assert "extra" in native.records[-1].scores


@dataclass(frozen=True)
class Smoothed(Classification):
    """cross entropy with smoothed labels, and a score of one's own"""

    def loss(self, outputs, y):
        return functional.cross_entropy(outputs, y, label_smoothing=0.2)

    def summed_loss(self, outputs, y):
        return functional.cross_entropy(outputs, y, label_smoothing=0.2, reduction="sum")

    def sums(self, outputs, y):
        return {**super().sums(outputs, y), "extra": float(outputs.double().square().sum())}


@dataclass(frozen=True)
class OwnLoss(Method):
    """an extra loss without a closed gradient, a correction that is not affine, and a look at the gradient"""

    needs_representation = True

    def client(self, received, memory, local):  # noqa: ARG002
        z = local.representations(received)
        gradient = local.gradient(received)

        def term(batch):
            return (batch.representation - z[batch.rows] - 0.1).square().mean() + 0.01 * batch.logits.square().mean()

        return Reply(upload=local.train(received, Cubed(gradient), term))


@dataclass(frozen=True)
class Cubed:
    gradient: torch.Tensor

    def add_to(self, h, w_k):
        h.add_(w_k**3).add_(self.gradient)

    def operations(self):
        return 3


def test_a_method_of_ones_own_with_any_loss_and_any_correction(pictures):
    native, by_torch = both(pictures, functional_net(), method=OwnLoss())
    check_alike(native, by_torch)
    plain, _ = both(pictures, functional_net())
    assert apart(native, plain) > 1e-3


@dataclass(frozen=True)
class ConstantTerm(Method):
    """an extra loss that depends on nothing"""

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(received, extra_loss=lambda _: torch.tensor(1.0)))


def test_an_extra_loss_without_gradient_changes_nothing(pictures):
    one = fedtrip.run(Experiment(**SMALL, method=ConstantTerm()), data=pictures, model=functional_net(), workers=1)
    other = fedtrip.run(Experiment(**SMALL, method="fedavg"), data=pictures, model=functional_net(), workers=1)
    assert one.experiment.compute == "native"
    assert one.model_sha256 == other.model_sha256  # step by step and in one call: the same bits


@pytest.mark.parametrize("method", ["fedtrip", "moon"])
def test_dropout_is_a_function_of_seed_round_client_and_step(method, pictures):
    def run(**fields):
        experiment = Experiment(**{**SMALL, "method": method, "local_epochs": 2, **fields})
        return fedtrip.run(experiment, data=pictures, model=functional_net(0.5), workers=1)

    first = run()
    torch.manual_seed(123)
    assert run().model_sha256 == first.model_sha256
    without = fedtrip.run(
        Experiment(**{**SMALL, "method": method, "local_epochs": 2}), data=pictures, model=functional_net(), workers=1
    )
    assert apart(first, without) > 1e-3


def test_dropout_keeps_the_mean_of_what_it_thins():
    """E[mask] = 1: the mean output of many steps is that without dropout; torch's own has the same spread."""
    module = nn.Sequential(nn.Dropout(0.3), nn.Linear(50, 1, bias=False))
    nn.init.constant_(module[1].weight, 1 / 50)
    chain = trace_chain(module, (50,))
    native, w, x = chain.native(), chain.weights_of(module), torch.ones(400, 50)
    outputs = torch.stack([native.forward(w, x, mode=Mode.TRAINING, key=3, step=step)[0] for step in range(20)])
    assert float(outputs.mean()) == pytest.approx(1, abs=0.005)
    assert float(outputs.var()) == pytest.approx(0.3 / 0.7 / 50, rel=0.1)


@pytest.mark.parametrize("method", ["fedtrip", "moon", "fedgkd"])
def test_one_and_two_workers_have_the_same_bits(method, pictures):
    experiment = Experiment(**SMALL, method=method)
    one, two = (fedtrip.run(experiment, data=pictures, model=functional_net(0.2), workers=n) for n in (1, 2))
    assert one.experiment.compute == "native"
    assert one.model_sha256 == two.model_sha256
    assert [r.scores for r in one.records] == [r.scores for r in two.records]


def test_a_wide_convolution_is_trained_by_torch_and_evaluated_natively(pictures):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(256, 4),
        )  # fmt: skip
    mixed = fedtrip.run(Experiment(**SMALL), data=pictures, model=module, workers=1)
    native, by_torch = both(pictures, module)
    assert mixed.experiment.compute == "native-evaluation"
    assert any("channels-last" in change for change in mixed.acceleration)
    assert mixed.model_sha256 == by_torch.model_sha256
    assert mixed.records[-1].scores == pytest.approx(by_torch.records[-1].scores, abs=1e-5)
    check_alike(native, by_torch)
    loss = {name: run.records[-1].scores["loss"] for name, run in (("mixed", mixed), ("torch", by_torch))}
    assert loss["mixed"] != loss["torch"]  # it is another program that adds up


def test_images_in_another_layout_are_the_same_images(pictures):
    turned = {
        name: np.transpose(np.ascontiguousarray(np.transpose(value, (0, 2, 3, 1))), (0, 3, 1, 2))
        if value.ndim == 4
        else value
        for name, value in pictures.items()
    }
    one, other = (
        fedtrip.run(Experiment(**SMALL), data=data, model=functional_net(), workers=1) for data in (pictures, turned)
    )
    assert one.model_sha256 == other.model_sha256
    assert one.records[-1].scores == other.records[-1].scores


def test_scores_are_those_of_the_whole_test_set_in_any_division_into_blocks():
    federation = prepare(Experiment(**SMALL, compute="native"))
    bench = Workbench(federation, PreparedModel.of(federation))
    model = PreparedModel.of(federation).flat.model()
    whole = bench.score(Question(model), bench.blocks(Question(model)))
    module = federation.module.eval()
    x = federation.dataset.normalised(federation.dataset.x_test)
    with torch.no_grad():
        outputs = module(x)
    right = int((outputs.argmax(1) == federation.dataset.y_test).sum())
    loss = float(functional.cross_entropy(outputs.double(), federation.dataset.y_test, reduction="sum"))
    assert sum(sums["accuracy"] for sums in whole) == right
    assert sum(sums["loss"] for sums in whole) == pytest.approx(loss, rel=1e-5)


def test_what_diverges_is_not_hidden(pictures):
    """NaN and infinity pass through ReLU and pooling as in torch: the run ends, and says why."""
    for compute in ("native", "torch"):
        experiment = Experiment(**{**SMALL, "lr": 1e30, "rounds": 5}, compute=compute)
        assert "diverged" in (fedtrip.run(experiment, data=pictures, model=functional_net(), workers=1).ended or "")
