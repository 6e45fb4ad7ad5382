"""Modules as users write them: whatever is done to make them fast, they are trained as they are written."""

import pytest
import torch
from tests.reference.naive import CLOSE, apart, run_naive
from tests.reference.setting import CLASSES, Net, Setting, made
from tests.reference.watching import named
from torch import nn
from torch.nn.utils import parametrizations

import fedtrip
from fedtrip.models import check_model
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.costs import pass_cost


def images(shape=(1, 4, 4), sizes=(9, 8, 13)):
    """Small images for each client."""
    generator = torch.Generator().manual_seed(0)
    pairs = [
        (torch.randn(n, *shape, generator=generator), torch.randint(0, CLASSES, (n,), generator=generator))
        for n in sizes
    ]
    pairs[0][1][0] = CLASSES - 1
    return pairs


class Wrapped(nn.Module):
    """Layers in a plain nn.Sequential."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def pooled():
    return Wrapped(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES))


def pooled_in_place():
    return Wrapped(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES)
    )


def overlapping_pool():
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    return Wrapped(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), pool, nn.Flatten(), nn.Linear(12, CLASSES))


def whole_input_convolution():
    return Wrapped(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, CLASSES))


def wide():
    return Wrapped(
        nn.Conv2d(1, 33, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(33, 4, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4, CLASSES),
    )


class OnePoolTwice(nn.Module):
    """As in many tutorials: one pooling layer for all convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.pool(torch.relu(self.first(x)))
        x = self.pool(torch.relu(self.second(x)))
        return self.head(x.view(x.size(0), -1))


class WideWithView(nn.Module):
    """`x.view(len(x), -1)` after convolutions: the usual way to write it, which needs the usual memory layout."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 33, 3, padding=1), nn.Conv2d(33, 4, 3, padding=1)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.second(torch.relu(self.first(x)))
        return self.head(x.view(len(x), -1))


class ViewOfAWeight(nn.Module):
    """A module that looks at a weight as at one vector."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(x.flatten(1)) + self.head.weight.view(-1)[:CLASSES].square()


class SkipOutOfASequential(nn.Module):
    """Takes what is between the layers of a Sequential, as U-Nets do; here all shapes are the same."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 1, 1))
        self.head = nn.Linear(48, CLASSES)

    def forward(self, x):
        between = self.encoder[:2](x)
        return self.head((between - 0.5 * self.encoder[2](between)).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(self.cells(x[:, 0])[0][:, -1])


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(x[:, 0]).flatten(1))


class Normed(nn.Module):
    """A weight that is computed from others, and one whose computation keeps a state of its own."""

    def __init__(self):
        super().__init__()
        self.first = parametrizations.spectral_norm(nn.Linear(16, 5))
        self.head = parametrizations.weight_norm(nn.Linear(5, CLASSES))

    def forward(self, x):
        return self.head(torch.tanh(self.first(x.flatten(1))))


ZOO = [
    pooled,
    pooled_in_place,
    overlapping_pool,
    whole_input_convolution,
    wide,
    OnePoolTwice,
    Recurrent,
    Attentive,
    WideWithView,
    ViewOfAWeight,
    SkipOutOfASequential,
]


@pytest.mark.parametrize("factory", ZOO)
@pytest.mark.parametrize(("name", "options"), [("fedavg", {}), ("fedtrip", {"mu": 0.4})])
def test_it_is_trained_as_it_is_written(factory, name, options):
    setting = Setting(module=made(factory), pairs=images(), rounds=3, momentum=0.9)
    assert apart(setting.run(name, **options).state, run_naive(setting, name, **options)[0]) < CLOSE


@pytest.mark.parametrize("shape", [(1, 5, 5), (2, 6, 4), (1, 4, 7)], ids=str)
def test_pooling_leaves_an_odd_last_row_out(shape):
    def factory():
        cells = 3 * (shape[1] // 2) * (shape[2] // 2)
        layers = nn.Conv2d(shape[0], 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        return Wrapped(*layers, nn.Flatten(), nn.Linear(cells, CLASSES))

    setting = Setting(module=made(factory), pairs=images(shape), rounds=3, momentum=0.9)
    assert apart(setting.run("fedavg").state, run_naive(setting, "fedavg")[0]) < CLOSE


@pytest.mark.parametrize("factory", [pooled, wide, whole_input_convolution])
def test_the_state_dict_is_the_modules_own(factory):
    module = made(factory)
    result = Setting(module=module, pairs=images(), rounds=1).run("fedavg")
    assert {key: value.shape for key, value in result.state.items()} == {
        key: value.shape for key, value in module.state_dict().items()
    }
    assert all(value.is_contiguous() for value in result.state.values())
    assert [type(part) for part in result.module.modules()] == [type(part) for part in module.modules()]


class InPlace(nn.Module):
    """Changes its input: its own affair, as long as the next one who gets these samples gets them unchanged."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x.mul_(0.5))


class OutOfPlace(InPlace):
    def forward(self, x):
        return self.net(x * 0.5)


@pytest.mark.parametrize("name", ["fedavg", "moon"])
def test_a_module_that_changes_its_input_in_place_spoils_nothing(name):
    results = []
    for factory in (InPlace, OutOfPlace):
        setting = Setting(module=made(factory), rounds=3)
        experiment = setting.experiment(name).but(eval_every=1)
        results.append(fedtrip.run(experiment, model=setting.module, data=setting.data, workers=1))
    assert [r.loss for r in results[0].records] == pytest.approx([r.loss for r in results[1].records], rel=1e-6)
    assert results[0].model_sha256 == results[1].model_sha256


class Counting(nn.Module):
    """Counts its inputs, also in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x):
        self.seen += len(x)
        self.average.mul_(0.5).add_(x.mean(0) + 1)
        return self.net(x)


@pytest.mark.parametrize(("factory", "pairs"), [(Counting, Setting().pairs), (Normed, images())], ids=["own", "norm"])
def test_the_first_global_model_is_the_users(factory, pairs):
    setting = Setting(module=made(factory), pairs=pairs, rounds=1)
    federation = setting.federation("fedavg")
    state, wanted = (
        named(federation, initial_state(federation, ClientStore()).server.model),
        setting.module.state_dict(),
    )
    assert all(torch.equal(state[key], wanted[key]) for key in wanted)


# ---- hooks on parameters


def hooked(register):
    """A module whose last bias has a hook that its author wants to be called."""
    module = made(Net)
    name, parameter = list(module.named_parameters())[-1]
    getattr(parameter, register)(lambda *_: None)
    return module, name


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("as_factory", [False, True], ids=["module", "factory"])
def test_a_hook_on_a_parameter_is_refused_by_name(register, as_factory):
    """Training works on a copy of the module, and a copy of a parameter has no hooks."""
    module, name = hooked(register)
    data = fedtrip.from_clients(images((6,)), images((6,))[0])
    given = (lambda: module) if as_factory else module
    with pytest.raises(fedtrip.UserError, match=rf"parameter '{name}' with a gradient hook.*; accepted: "):
        fedtrip.run(fedtrip.Experiment(rounds=1), model=given, data=data, workers=1)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_that_was_removed_again_is_no_reason(register):
    module = made(Net)
    getattr(next(module.parameters()), register)(lambda *_: None).remove()
    check_model(module, Setting().federation("fedavg").dataset.sample_shape, CLASSES)


# ---- nested tensors


class Padded(nn.Module):
    """A stock encoder with a padding mask: in evaluation torch packs its input into a nested tensor."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.embed, self.body, self.head = nn.Linear(4, 8), nn.TransformerEncoder(layer, 2), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = x.squeeze(1)
        padding = (x.abs().sum(2) == 0) & (torch.arange(x.shape[1]) > 0)
        return self.head(self.body(self.embed(x), src_key_padding_mask=padding)[:, 0])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_with_a_padding_mask_is_trained_as_it_is_written():
    pairs = images((1, 5, 4))
    for x, _ in pairs:
        x[::2, :, 3:] = 0
    setting = Setting(module=made(Padded), pairs=pairs)
    result = setting.run("fedavg")
    module, _ = run_naive(setting, "fedavg")
    assert apart(result.state, module) < CLOSE
    # embed 5·4·8, twice (qkv 5·8·24, out 5·8·8, two layers of 5·8·16), head 8·3; torch counts no fused attention
    assert pass_cost(setting.module, (1, 5, 4)).forward == 160 + 2 * (960 + 320 + 1280) + 24
