"""FedAlign: loss CE + μ·(CE/ℓ)·ℓ, CE/ℓ a constant; ℓ = mean of (‖h_s‖·‖f_s‖ − ‖h‖·‖f‖)² over the batch."""

import math
from dataclasses import dataclass

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import vectors
from tests.reference.setting import CLASSES, FEATURES, Net, Setting, made, normalised
from tests.reference.tables import COST, SETTINGS, bits_of
from tests.reference.watching import bytes_of, watched
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods import fedalign
from fedtrip.methods.fedalign import Alignment, FedAlign, alignment_loss, alignment_slope
from fedtrip.methods.interface import (
    Batch,
    BatchGradient,
    ClosedLoss,
    CountedLoss,
    Hidden,
    Memory,
    Method,
    Reply,
    make_method,
)  # fmt: skip
from fedtrip.training.costs import _FlopCounter, pass_cost

BOTH = pytest.mark.parametrize("compute", ["native", "torch"])


class LayerLocal:
    """A client whose parameters are a layer of two inputs and two outputs, (W₁₁, W₁₂, W₂₁, W₂₂, b₁, b₂), with one
    sample h. Its logits are always 0, so that the cross entropy of its two classes is log 2, and without gradient."""

    def __init__(self, h, lr, steps, closed):
        self.h, self.lr, self.steps, self.closed = torch.tensor([h]), lr, steps, closed

    def train(self, start, correction=None, extra_loss=None):
        assert correction is None
        w = start["w"].clone()
        for _ in range(self.steps):
            leaf = w.clone().requires_grad_()
            seen = leaf.detach() if self.closed else leaf
            hidden = Hidden(self.h, seen[:4].view(2, 2), seen[4:])
            batch = Batch(torch.tensor([0]), torch.tensor([1]), torch.zeros(1, 2), None, hidden)
            if self.closed:
                found = extra_loss.gradient(batch)
                assert (found.logits, found.representation) == (None, None)
                g = torch.cat([found.weight.reshape(-1), found.bias])
            else:
                (g,) = torch.autograd.grad(extra_loss(batch), leaf)
            w = w - self.lr * g
        return {"w": w}


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "autograd"])
def test_two_rounds_by_hand(closed):
    # h = (3, 4), W = ((1, 0), (0, 0)), b = 0, ω = ½: one input and one output are left. f = (f₁, 0), f₁ = 3W₁₁ + b₁;
    # f_s = f₁. ‖h‖‖f‖ = 5f₁, ‖h_s‖‖f_s‖ = 3f₁: the gap is −2f₁, ℓ = 4f₁². ∂ℓ/∂f_s = 2·(−2f₁)·3 = −12f₁, times h_s = 3
    # for W₁₁ and 1 for b₁. With the factor μ·log 2/ℓ: −9μ·log 2/f₁ and −3μ·log 2/f₁; nothing else moves.
    # μ = 0.4, η = ½. Round 1: f₁ = 3. Round 2: f₁ = 3W₁₁ + b₁ with the new ones.
    c, w, b, wanted = 0.5 * 0.4 * math.log(2), 1.0, 0.0, []
    for _ in range(2):
        f = 3 * w + b
        w, b = w + 9 * c / f, b + 3 * c / f
        wanted.append([w, 0, 0, 0, b, 0])
    method, received, found = FedAlign(mu=0.4, width=0.5), torch.tensor([1.0, 0, 0, 0, 0, 0]), []
    for _ in range(2):
        reply = method.client({"w": received}, Memory(), LayerLocal([3.0, 4.0], lr=0.5, steps=1, closed=closed))
        assert reply.keep == {}
        received = reply.upload["w"]
        found.append(received.tolist())
    assert found == [pytest.approx(wanted[0], rel=1e-5), pytest.approx(wanted[1], rel=1e-5)]


def layer(outputs=8, inputs=12, samples=5, seed=0, bias=True):
    weight, h = torch.stack(vectors(outputs, inputs, seed)), torch.stack(vectors(samples, inputs, seed + 1))
    return Hidden(h, weight, vectors(1, outputs, seed + 2)[0] if bias else None)


def of_singular_values(hidden, width, dtype=torch.float64):
    """ℓ with the singular values of the matrices themselves."""
    h, weight = hidden.inputs.to(dtype), hidden.weight.to(dtype)
    bias = torch.zeros(len(weight), dtype=dtype) if hidden.bias is None else hidden.bias.to(dtype)
    outputs, inputs = (max(1, round(width * size)) for size in weight.shape)
    terms = []
    for x in h:
        with torch.no_grad():
            whole = torch.linalg.svdvals(torch.outer(x, weight @ x + bias))
        part = torch.linalg.svdvals(torch.outer(x[:inputs], weight[:outputs, :inputs] @ x[:inputs] + bias[:outputs]))
        assert float(whole[1:].sum()) < 1e-9 * float(whole[0])  # rank 1
        terms.append((part[0] - whole[0]) ** 2)
    return sum(terms) / len(terms)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [0.1, 0.25, 0.5, 0.9])
def test_the_loss_is_that_of_the_largest_singular_values(width, bias):
    hidden = layer(bias=bias)
    wanted = float(of_singular_values(hidden, width))
    assert float(alignment_loss(hidden, width)) == pytest.approx(wanted, rel=1e-5)
    assert alignment_slope(hidden, width)[0] == pytest.approx(wanted, rel=1e-9)


def batch_of(hidden, classes=3):
    logits = 2 * torch.stack(vectors(len(hidden.inputs), classes, seed=9))
    return Batch(torch.arange(len(logits)), torch.arange(len(logits)) % classes, logits, None, hidden)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("outputs", "inputs", "width"), [(8, 12, 0.25), (3, 2, 0.5), (40, 17, 0.6), (1, 9, 0.25)])
def test_the_closed_gradient_is_that_of_the_written_objective(outputs, inputs, width, bias):
    batch = batch_of(layer(outputs, inputs, bias=bias))
    weight = batch.hidden.weight.double().requires_grad_()
    own_bias = batch.hidden.bias.double().requires_grad_() if bias else None
    ell = of_singular_values(Hidden(batch.hidden.inputs, weight, own_bias), width)
    ce = functional.cross_entropy(batch.logits.double(), batch.labels)
    (0.7 * (ce / (ell + 1e-12)).detach() * ell).backward()
    found = Alignment(0.7, width).gradient(batch)
    assert (found.logits, found.representation) == (None, None)
    assert found.weight.dtype is torch.float32
    torch.testing.assert_close(found.weight.double(), weight.grad, rtol=1e-5, atol=1e-7)
    if bias:
        torch.testing.assert_close(found.bias.double(), own_bias.grad, rtol=1e-5, atol=1e-7)
    assert (found.bias is None) == (not bias)
    assert float(weight.grad.norm()) > 1e-3
    assert isinstance(Alignment(1.0, 0.5), ClosedLoss)
    assert isinstance(Alignment(1.0, 0.5), CountedLoss)


def test_autograds_gradient_is_that_of_the_closed_form_and_of_nothing_else():
    batch = batch_of(layer())
    leaves = [t.clone().requires_grad_() for t in (batch.hidden.weight, batch.hidden.bias, batch.hidden.inputs)]
    logits = batch.logits.clone().requires_grad_()
    seen = Batch(batch.rows, batch.labels, logits, None, Hidden(leaves[2], leaves[0], leaves[1]))
    loss = Alignment(0.7, 0.25)(seen)
    assert float(loss.detach()) == pytest.approx(
        0.7 * float(functional.cross_entropy(batch.logits, batch.labels)), rel=1e-5
    )
    loss.backward()
    found = Alignment(0.7, 0.25).gradient(batch)
    torch.testing.assert_close(found.weight, leaves[0].grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.bias, leaves[1].grad, rtol=1e-4, atol=1e-6)
    assert leaves[2].grad is None  # h is a constant, and so is the factor CE
    assert logits.grad is None
    assert float(leaves[0].grad[2:].abs().max()) == float(leaves[0].grad[:, 3:].abs().max()) == 0  # the rest stays


def test_a_layer_that_gives_nothing_has_a_finite_gradient():
    dead = Hidden(torch.ones(2, 4), torch.zeros(4, 4), torch.tensor([0.0, 0.0, 1.0, 1.0]))
    found = Alignment(1.0, 0.5).gradient(batch_of(dead, classes=2))
    assert float(found.weight.abs().max()) == float(found.bias.abs().max()) == 0
    leaf = dead.weight.clone().requires_grad_()
    alignment_loss(Hidden(dead.inputs, leaf, dead.bias), 0.5).backward()
    assert float(leaf.grad.abs().max()) == 0


@BOTH
@pytest.mark.parametrize("options", [{}, {"mu": 1.5, "width": 0.5}], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(options, compute, momentum):
    setting = Setting(momentum=momentum, weight_decay=0.02, lr=0.02, local_epochs=2, compute=compute)
    assert_follows(setting, "fedalign", **options)


def test_runs_like_the_reference_with_batch_norm():
    assert_follows(normalised(rounds=4, lr=0.03), "fedalign")


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_without_weight_it_is_fedavg_to_the_bit(setting):
    usual = bits_of("fedavg", setting)
    assert bits_of("fedalign", setting, mu=0.0) == usual
    assert bits_of("fedalign", setting) != usual


@BOTH
def test_at_full_width_it_is_fedavg_to_the_bit(compute):
    setting = Setting(momentum=0.9, compute=compute)
    assert bits_of("fedalign", setting, mu=5.0, width=1.0) == bits_of("fedavg", setting)


@BOTH
def test_its_costs(compute):
    setting = Setting(rounds=2, local_epochs=2, compute=compute)
    wire, records, history = watched(setting, "fedalign", width=0.5)
    _, usual, _ = watched(setting, "fedavg")
    h = 5 * FEATURES
    assert pass_cost(setting.module, (FEATURES,)).h == h
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * bytes_of(setting)[1]
        assert record.client_memory == 0
        samples = 2 * sum(len(setting.pairs[k][1]) for k in record.clients)
        assert record.macs - plain.macs == samples * (h + 2 * round(h / 4))  # no pass and no gradient more
        assert wire.names(wire.up, record.round) == {"w"}
    assert history[-1][0].state == {}
    attaching = FedAlign().attaching(COST)
    assert (attaching.flops, attaching.formula, attaching.communication) == (5 * 4 * 45.0, "K·M(1+2ω²)h", "0")
    assert (FedAlign().mu, FedAlign().width, FedAlign.momentum, FedAlign.weighting) == (0.45, 0.25, 0.9, "samples")


def test_the_products_that_are_declared_are_those_that_torch_sees():
    hidden = layer(outputs=8, inputs=12, samples=5)
    leaf = Hidden(hidden.inputs, hidden.weight.requires_grad_(), hidden.bias)
    with _FlopCounter() as seen:
        alignment_loss(leaf, 0.25).backward()

    @dataclass
    class Sizes:
        C, r, h = 0, 0, 8 * 12

    assert seen.flops // 2 == 5 * Alignment(1.0, 0.25).operations(Sizes())


def refused(module, shape=(FEATURES,)):
    pairs = [(torch.randn(8, *shape), torch.arange(8) % CLASSES) for _ in range(3)]
    described = fedtrip.Experiment(method="fedalign", per_round=2)
    with pytest.raises(UserError) as error:
        fedtrip.run(described, model=module, data=fedtrip.from_clients(pairs, pairs[0]), workers=1)
    assert "\n" not in str(error.value)
    return str(error.value)


class OnPlaces(nn.Module):
    """A hidden layer that gets a row for each of four places."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(FEATURES, 5), nn.Linear(20, CLASSES)

    def forward(self, x):
        return self.head(self.hidden(x).flatten(1))


def test_a_model_without_such_a_layer_is_refused_by_name():
    no_layer = "method 'fedalign': the model has no hidden fully connected layer, a torch.nn.Linear before its last"
    assert refused(nn.Linear(FEATURES, CLASSES)).startswith(no_layer)
    convolutions = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, CLASSES))
    assert refused(convolutions, (1, 4, 4)).startswith(no_layer)
    more_rows = (
        "method 'fedalign': its last hidden fully connected layer, 'hidden', gets more than one row of 6 features"
    )
    assert refused(OnPlaces(), (4, FEATURES)).startswith(more_rows)
    with pytest.raises(UserError, match="method 'fedalign': the model has no hidden fully connected layer"):
        fedtrip.run(fedtrip.Experiment(method="fedalign", model="logistic"), workers=1)


SMOOTHED = {"name": "classification", "label_smoothing": 0.1}


@pytest.mark.parametrize("task", ["regression", "binary", "multilabel", "tokens", SMOOTHED], ids=str)
def test_another_loss_is_refused_by_name(task):
    name = task if isinstance(task, str) else "classification"
    with pytest.raises(UserError, match=f"method 'fedalign'.*task '{name}"):
        fedtrip.run(fedtrip.Experiment(method="fedalign", task=task, dataset="npz:there-is-no-such-file.npz"))


@pytest.mark.parametrize(
    ("option", "value"), [("mu", -0.1), ("mu", math.nan), ("width", 0), ("width", 1.5), ("width", "half")]
)
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedalign': option '{option}' is {value!r}"):
        make_method("fedalign", {option: value}, model="cnn", dataset="mnist")


# ---- what a method of one's own can do with the layer


@dataclass(frozen=True)
class OnTheLayer(Method):
    """a loss without a closed gradient, that looks at the hidden layer"""

    needs_hidden = True

    def client(self, received, memory, local):  # noqa: ARG002
        def term(batch):
            layer, inputs = batch.hidden, batch.hidden.inputs.detach()
            return functional.linear(inputs, layer.weight, layer.bias).square().mean() + 0.1 * batch.logits.sum()

        return Reply(local.train(received, extra_loss=term))


class ThreeLayers(nn.Module):
    """Two hidden layers, the last one without a bias."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(FEATURES, 7), nn.Linear(7, 5, bias=False), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


@pytest.mark.parametrize("module", [made(Net), made(ThreeLayers)], ids=["one hidden layer", "two"])
@pytest.mark.parametrize("method", [OnTheLayer(), FedAlign(), FedAlign(mu=2.0, width=0.6)], ids=str)
def test_the_native_chain_and_torch_train_alike(method, module):
    setting = Setting(module=module, momentum=0.9, lr=0.05)
    native, by_torch = (
        fedtrip.run(
            setting.but(compute=compute).experiment("fedavg").but(method=method),
            model=module, data=setting.data, workers=1,
        )
        for compute in ("native", "torch")
    )  # fmt: skip
    assert (native.experiment.compute, by_torch.experiment.compute) == ("native", "torch")
    assert apart(native.state, by_torch.module) < 1e-5
    assert apart(native.state, setting.run("fedavg").module) > 1e-3


@dataclass(frozen=True)
class Beside(Method):
    """FedAlign's loss, its gradient looked at beside w_k"""

    needs_hidden = True

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(local.train(received, extra_loss=Alignment(1.0, 0.5), direction=self))

    def at(self, w_k, gradient, step):  # noqa: ARG002
        return gradient(0.3 * w_k)

    def operations(self):
        return 1

    def gradients(self):
        return 1


def test_the_layer_is_that_of_the_place_where_one_looks():
    setting = Setting()
    native, by_torch = (
        fedtrip.run(
            setting.but(compute=compute).experiment("fedavg").but(method=Beside()),
            model=setting.module, data=setting.data, workers=1,
        )
        for compute in ("native", "torch")
    )  # fmt: skip
    assert apart(native.state, by_torch.module) < 1e-5


def test_the_input_of_a_layer_can_be_named():
    # `head` gets what comes out of `body`: the two names mean the same representation.
    setting = Setting(rounds=2)
    one, other = (
        fedtrip.run(
            setting.experiment("moon").but(representation=name), model=setting.module, data=setting.data, workers=1
        )
        for name in ("body", "input of head")
    )
    assert one.model_sha256 == other.model_sha256
    with pytest.raises(UserError, match="representation 'haed' is unknown; did you mean 'head'"):
        fedtrip.run(
            setting.experiment("moon").but(representation="input of haed"), model=setting.module, data=setting.data
        )


# ---- wrong variants


def goal_not_a_constant(hidden, width):
    part = fedalign._slim(hidden, width)
    f, f_s = (functional.linear(x.inputs.detach(), x.weight, x.bias) for x in (hidden, part))
    goal, found = (i.norm(dim=1) * o.norm(dim=1) for i, o in ((hidden.inputs, f), (part.inputs, f_s)))
    return functional.mse_loss(found, goal)


def of_outputs_alone(hidden, width):
    part = fedalign._slim(hidden, width)
    f, f_s = (functional.linear(x.inputs.detach(), x.weight, x.bias) for x in (hidden, part))
    return functional.mse_loss(f_s.norm(dim=1), f.detach().norm(dim=1))


def fed_the_whole_input(hidden, width):
    h, part = hidden.inputs.detach(), fedalign._slim(hidden, width)
    f = functional.linear(h, hidden.weight, hidden.bias)
    return functional.mse_loss(
        h.norm(dim=1) * f[:, : len(part.weight)].norm(dim=1), (h.norm(dim=1) * f.norm(dim=1)).detach()
    )


@pytest.mark.parametrize("wrong", [goal_not_a_constant, of_outputs_alone, fed_the_whole_input])
def test_a_wrong_loss_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(fedalign, "alignment_loss", wrong)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand(closed=False)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, "torch", 0.0)


RIGHT = Alignment.gradient


def without_the_factor(self, batch):
    ell = alignment_slope(batch.hidden, self.width)[0]
    ce = float(functional.cross_entropy(batch.logits, batch.labels))
    found = RIGHT(self, batch)
    return BatchGradient(weight=found.weight * ell / ce, bias=None if found.bias is None else found.bias * ell / ce)


def without_the_bias(self, batch):
    return BatchGradient(weight=RIGHT(self, batch).weight)


@pytest.mark.parametrize("wrong", [without_the_factor, without_the_bias])
def test_a_wrong_closed_gradient_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(Alignment, "gradient", wrong)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, "native", 0.0)
