"""The paper's models to the last parameter and multiply-add, and a user's own."""

import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedtrip.errors import UserError
from fedtrip.models import MODELS, build_model, check_model, check_model_spec, model_class, usual_samples

GREY, COLOUR = (1, 28, 28), (3, 32, 32)
NAMES = "alexnet, cnn, cnn-mcmahan, logistic, lstm, mlp, resnet18, resnet18-bn, resnet8, resnet8-bn, transformer"


def parameters_of(model):
    return sum(parameter.numel() for parameter in model.parameters())


# ---- the known models


@pytest.mark.parametrize(
    ("name", "sample_shape", "parameters", "macs"),
    [
        ("mlp", GREY, 79_510, 79_400),
        ("cnn", GREY, 61_706, 416_520),
        ("alexnet", COLOUR, 2_729_290, 145_922_816),
        ("logistic", GREY, 7850, 7840),
        ("cnn-mcmahan", GREY, 1_663_370, 784 * 25 * 32 + 196 * 25 * 32 * 64 + 3136 * 512 + 5120),
        ("resnet8", COLOUR, 78_042, 12_501_632),
        ("resnet8-bn", COLOUR, 78_042, 12_501_632),
        ("resnet18", COLOUR, 11_173_962, 555_422_720),
        ("resnet18-bn", COLOUR, 11_173_962, 555_422_720),
    ],
)
def test_models_of_papers_have_their_parameters_and_multiply_adds(name, sample_shape, parameters, macs):
    model = build_model(name, sample_shape, 10, seed=0).eval()
    assert parameters_of(model) == parameters
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, *sample_shape))
    assert counter.get_total_flops() == 2 * macs


def test_the_cnn_has_47_outputs_for_emnist():
    assert parameters_of(build_model("cnn", GREY, 47, seed=0)) == 61_706 + 37 * (84 + 1)


def layers_of(model):
    return [type(layer).__name__ for layer in model]


def test_the_order_of_layers():
    conv_relu_pool = ["Conv2d", "ReLU", "MaxPool2d"]
    assert layers_of(build_model("mlp", GREY, 10, 0)) == ["Flatten", "Linear", "ReLU", "Linear"]
    head = ["Flatten", "Linear", "ReLU", "Linear"]
    assert layers_of(build_model("cnn", GREY, 10, 0)) == conv_relu_pool * 2 + ["Conv2d", "ReLU", *head]
    head = ["AdaptiveAvgPool2d", "Flatten", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    assert layers_of(build_model("alexnet", COLOUR, 10, 0)) == conv_relu_pool * 2 + ["Conv2d", "ReLU"] * 3 + head


@pytest.mark.parametrize(
    ("name", "sample_shape"),
    [
        ("mlp", (1,)),
        ("mlp", (7,)),
        ("mlp", (2, 5, 3)),
        ("cnn", (1, 28, 28)),
        ("cnn", (3, 32, 32)),
        ("cnn", (2, 29, 41)),
        ("alexnet", (1, 10, 10)),
        ("alexnet", (1, 28, 28)),
        ("alexnet", (3, 11, 64)),
        ("logistic", (2, 5, 3)),
        ("cnn-mcmahan", (3, 4, 7)),
        ("resnet8", (1, 1, 1)),
        ("resnet18-bn", (2, 5, 9)),
    ],
)
def test_models_take_other_shapes_and_numbers_of_classes(name, sample_shape):
    check_model(build_model(name, sample_shape, 7, seed=0), sample_shape, 7)


@pytest.mark.parametrize(
    ("name", "sample_shape", "smallest"),
    [
        ("mlp", (), "(1,)"),
        ("mlp", (0, 3), "(1,)"),
        ("cnn", (1, 27, 28), "height and width from 28"),
        ("cnn", (1, 28, 27), "height and width from 28"),
        ("cnn", (28, 28), "height and width from 28"),
        ("cnn", (0, 28, 28), "height and width from 28"),
        ("alexnet", (3, 9, 32), "height and width from 10"),
        ("alexnet", (784,), "height and width from 10"),
        ("logistic", (), "(1,)"),
        ("cnn-mcmahan", (1, 3, 28), "height and width from 4"),
        ("resnet8", (28, 28), "height and width from 1"),
        ("resnet18-bn", (64,), "height and width from 1"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_with_the_smallest_that_does(name, sample_shape, smallest):
    with pytest.raises(UserError) as refused:
        build_model(name, sample_shape, 10, seed=0)
    assert f"model '{name}' cannot take samples of shape {sample_shape}" in str(refused.value)
    assert smallest in str(refused.value)


def test_the_page_of_models_has_each_with_its_title_and_its_parameters():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    expected = []
    for name in MODELS:
        inputs, classes = usual_samples(name)
        shape = "×".join(map(str, inputs.shape)) + (f" of {inputs.vocabulary} tokens" if inputs.vocabulary else "")
        count = parameters_of(build_model(name, inputs, classes, 0))
        expected.append(f"| `{name}` | {model_class(name).title} | {shape} | {count:,} |")
    assert rows == expected


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_are_a_function_of_the_seed_and_the_users_generator_is_untouched(name):
    inputs, classes = usual_samples(name)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = build_model(name, inputs, classes, seed=1)
    assert torch.equal(torch.rand(3), expected)
    same, other = (build_model(name, inputs, classes, seed=seed) for seed in (1, 2))
    constant = {
        f"{path}.{key}"
        for path, layer in one.named_modules()
        if isinstance(layer, nn.GroupNorm | nn.BatchNorm2d | nn.LayerNorm)
        for key in layer.state_dict()
    }
    for key, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[key])
        assert torch.equal(value, other.state_dict()[key]) == (key in constant)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cn", f"model 'cn' is unknown; did you mean 'cnn'? accepted: {NAMES}, or package.module:factory"),
        (":make", f"model ':make' is not accepted; accepted: {NAMES}, or package.module:factory"),
        ("module:", "is not accepted"),
        ("a..b:make", "is not accepted"),
        ("module:make()", "is not accepted"),
        ("a/b.py:make", "is not accepted"),
    ],
)
def test_badly_written_models_are_refused(spec, message):
    for refuse in (check_model_spec, lambda bad: build_model(bad, GREY, 10, 0)):
        with pytest.raises(UserError) as refused:
            refuse(spec)
        assert message in str(refused.value)


def test_a_models_spec_is_checked_without_importing_anything():
    check_model_spec("no_such_module_at_all:factory")
    assert all(check_model_spec(name) is None for name in MODELS)


# ---- a user's own model


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module into the working directory and build a model with its `make`."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def build(source, sample_shape=(4,), classes=3, seed=0, name="own_model", attribute="make"):
        header = "import torch\nfrom torch import nn\n"
        (tmp_path / f"{name}.py").write_text(header + textwrap.dedent(source))
        sys.modules.pop(name, None)
        return build_model(f"{name}:{attribute}", sample_shape, classes, seed)

    yield build
    for name in set(sys.modules) - before:
        if name.startswith("own"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "source",
    [
        "def make(sample_shape, classes): return nn.Linear(sample_shape[0], classes)",
        "def make(*, classes, sample_shape): return nn.Linear(*sample_shape, classes)",
        "def make(classes): return nn.Linear(4, classes)",
        "def make(sample_shape): return nn.Linear(sample_shape[0], 3)",
        "def make(hidden=4): return nn.Linear(hidden, 3)",
        "def make(**settings): return nn.Linear(settings['sample_shape'][0], settings['classes'])",
        "make = lambda: nn.Linear(4, 3)",
        """
        class make(nn.Sequential):
            def __init__(self, classes):
                super().__init__(nn.Linear(4, classes))
        """,
    ],
)
def test_a_factory_is_called_with_what_it_takes(own, source):
    assert parameters_of(own(source)) == 15


def test_a_module_with_a_sibling_import_works(own, tmp_path):
    (tmp_path / "own_helper.py").write_text("SIZE = 4")
    assert parameters_of(own("import own_helper\ndef make(): return nn.Linear(own_helper.SIZE, 3)")) == 15


def test_a_users_initial_weights_are_a_function_of_the_seed(own):
    source = "def make(): return nn.Linear(4, 3)"
    torch.manual_seed(1)
    one = own(source, seed=3)
    torch.manual_seed(2)
    assert torch.equal(own(source, seed=3).weight, one.weight)
    assert not torch.equal(own(source, seed=4).weight, one.weight)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_thing", "cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("def build(): pass", "cannot be imported: module 'own_model' has no 'make'"),
        ("make = 3", "is a int object; accepted: a function that returns a new torch.nn.Module"),
        ("make = nn.Linear(4, 3)", "is a Linear object; accepted: a function"),
        ("def make(): raise RuntimeError('no\\nluck')", "failed when called with (): RuntimeError: no luck"),
        ("def make(classes, depth): pass", "failed when called with (classes=3): TypeError"),
        ("def make(): return 'net'", "returned a str; accepted: a torch.nn.Module"),
        ("def make(): return nn.Flatten()", "has no trainable parameters"),
        ("def make(): return nn.Linear(4, 3).requires_grad_(False)", "has no trainable parameters"),
        ("def make(): return nn.Linear(4, 3).double()", "has the parameter 'weight' of type torch.float64"),
        ("def make(): return nn.LazyLinear(3)", "has lazy layers"),
        ("def make(net=nn.Linear(4, 3)): return net if net.bias.register_hook(abs) else 0", "the parameter 'bias'"),
        ("def make(): return nn.Linear(4, 2)", "(2, 2) for a batch of shape (2, 4); accepted: a tensor of shape (2, 3"),
        ("def make(): return nn.LSTM(4, 3)", "a batch of shape (2, 4): the model returns a tuple without a tensor"),
        ("def make(): return nn.Linear(5, 3)", "fails on a batch of shape (2, 4): RuntimeError: "),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_used_is_refused_with_the_reason(own, source, message):
    with pytest.raises(UserError) as refused:
        own(source)
    assert str(refused.value).startswith("model 'own_model:make' ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_module_that_does_not_exist_is_named(own):  # noqa: ARG001 — an empty working directory
    with pytest.raises(UserError, match=r"model 'own_absent:make' cannot be imported: .*No module named 'own_absent'"):
        build_model("own_absent:make", (4,), 3, 0)


# ---- check_model leaves the module alone


class Restless(nn.Module):
    """Counts its calls in one buffer, replaces another, and draws random numbers even in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.frozen_norm = nn.BatchNorm1d(4).eval()
        self.linear = nn.Linear(4, 3)
        self.calls = nn.Buffer(torch.zeros(1))
        self.last = nn.Buffer(torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        self.last = torch.rand(1)
        return self.linear(self.norm(self.frozen_norm(x)))


@pytest.mark.parametrize("classes", [3, 5], ids=["accepted", "refused"])
def test_checking_changes_neither_modes_nor_buffers_nor_the_generator(classes):
    module = Restless()
    last = module.last
    state = {key: value.clone() for key, value in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    generator = torch.get_rng_state()
    with pytest.raises(UserError) if classes == 5 else nullcontext():
        check_model(module, (4,), classes)
    assert [part.training for part in module.modules()] == modes
    assert modes.count(False) == 1
    assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())
    assert module.last is last
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_batch_norm_is_checked_in_evaluation_mode():
    """In training mode a batch norm over one value a channel raises for a batch of one, and shifts its statistics."""
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    check_model(module, (4,), 3)
    assert module[0].num_batches_tracked == 0
