"""Which modules are chains of the native engine: every form that is accepted, and every one that is refused."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedtrip.models import build_model
from fedtrip.models.chain import check_by_trial, trace_chain
from fedtrip.models.chain_layers import NotAChain
from fedtrip.models.representation import Tap
from fedtrip.native.chain import Kind, Layer, Mode

IMAGE = (2, 9, 8)


class Calls(nn.Module):
    """A module whose forward pass is a function of its layers and its input."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.calls = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.calls(self, x)


def chained(module, shape=IMAGE, **options):
    """The module's chain, confirmed by the library."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for parameter in module.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
    chain = trace_chain(module, shape, **options)
    check_by_trial(chain, module)
    return chain


def kinds(chain):
    return [layer.kind.name.lower() for layer in chain.layers]


def refused(module, shape=IMAGE, **options):
    with pytest.raises(NotAChain) as why:
        trace_chain(module, shape, **options)
    return str(why.value)


def head(layer, outputs=3):
    """The layer, and a classifier behind it."""
    size = layer(torch.zeros(1, *IMAGE)).numel()
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(size, outputs))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 4, 3),
        nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False),
        nn.Conv2d(2, 4, 3, padding="same"),
        nn.Conv2d(2, 4, (5, 3), padding="same"),
        nn.Conv2d(2, 4, 3, padding="valid"),
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d((2, 3), stride=(2, 2), ceil_mode=True),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, divisor_override=3),
        nn.AdaptiveAvgPool2d((3, 4)),
        nn.AdaptiveAvgPool2d((3, None)),
        nn.AdaptiveAvgPool2d(1),
        nn.ReLU(),
        nn.ReLU(inplace=True),
        nn.Tanh(),
        nn.Identity(),
        nn.Dropout(0.4),
        nn.Dropout(0.0),
    ],
    ids=str,
)
def test_every_layer_that_the_engine_has(layer):
    """The trial compares the outputs with the module's, so a wrong number in a layer is found here."""
    chain = chained(head(layer))
    assert kinds(chain)[-2:] == ["flatten", "linear"]
    assert len(chain.layers) == (2 if isinstance(layer, nn.Identity) or getattr(layer, "p", 1) == 0 else 3)


def test_the_numbers_of_a_layer_and_where_its_parameters_lie():
    module = nn.Sequential(nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)), nn.Flatten(), nn.Linear(140, 3))
    chain = chained(module)
    assert chain.layers == (
        Layer(
            Kind.CONVOLUTION, inputs=2, outputs=4, kernel_h=3, kernel_w=2, stride_h=2, stride_w=1, pad_h=1, pad_w=0,
            out_h=5, out_w=7, weight=0, bias=48,
        ),
        Layer(Kind.FLATTEN),
        Layer(Kind.LINEAR, inputs=140, outputs=3, weight=52, bias=472),
    )  # fmt: skip
    assert (chain.parameters, chain.outputs, chain.widest_convolution) == (475, 3, 4)
    assert chain.orders == {"2.weight": (1, 0)}
    w = chain.weights_of(module)
    assert torch.equal(w[52:472].view(140, 3), module[2].weight.t())
    assert torch.equal(w[:48].view(4, 2, 3, 2), module[0].weight)
    assert str(chain) == "convolution 2→4 3×2 stride 2×1 padding 1×0, flatten, linear 140→3"


def test_a_convolution_that_covers_its_input_is_a_linear_layer():
    module = nn.Sequential(nn.Conv2d(2, 5, (9, 8)), nn.ReLU(), nn.Conv2d(5, 6, 1), nn.Flatten(), nn.Linear(6, 3))
    chain = chained(module)
    assert kinds(chain) == ["flatten", "linear", "relu", "linear", "linear"]
    assert chain.orders == {"0.weight": (1, 2, 3, 0), "2.weight": (1, 2, 3, 0), "4.weight": (1, 0)}
    assert chain.widest_convolution == 0
    assert torch.equal(chain.weights_of(module)[:720].view(144, 5), module[0].weight.flatten(1).t())


@pytest.mark.parametrize(
    "flatten",
    [
        lambda x: torch.flatten(x, 1),
        lambda x: torch.flatten(x, start_dim=1, end_dim=-1),
        lambda x: x.flatten(1),
        lambda x: x.flatten(1, 3),
        lambda x: x.view(x.size(0), -1),
        lambda x: x.view(x.size()[0], -1),
        lambda x: x.view((x.shape[0], -1)),
        lambda x: x.reshape(x.shape[0], 144),
        lambda x: x.view(-1, 144),
        lambda x: torch.reshape(x, (x.size(0), -1)),
        lambda x: x.contiguous().view(x.size(0), -1),
    ],
)
def test_every_way_to_flatten(flatten):
    chain = chained(Calls(lambda self, x: self.last(flatten(x)), last=nn.Linear(144, 3)))
    assert kinds(chain) == ["flatten", "linear"]
    assert kinds(chained(nn.Sequential(nn.Flatten(1, 3), nn.Linear(144, 3)))) == ["flatten", "linear"]
    assert "flattens dimensions 2 to -1" in refused(nn.Sequential(nn.Flatten(2), nn.Linear(72, 3)))


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (functional.relu, "relu"),
        (lambda x: functional.relu(x, inplace=True), "relu"),
        (torch.relu, "relu"),
        (lambda x: x.relu(), "relu"),
        (lambda x: x.relu_(), "relu"),
        (torch.tanh, "tanh"),
        (functional.tanh, "tanh"),
        (lambda x: x.tanh(), "tanh"),
        (lambda x: functional.max_pool2d(x, 2), "max_pool"),
        (lambda x: functional.max_pool2d(x, kernel_size=3, stride=2, padding=1), "max_pool"),
        (lambda x: torch.max_pool2d(x, 2), "max_pool"),
        (lambda x: functional.avg_pool2d(x, 2, stride=1), "average_pool"),
        (lambda x: functional.adaptive_avg_pool2d(x, (3, 2)), "average_pool"),
    ],
)
def test_every_function_that_the_engine_has(function, kind):
    size = function(torch.zeros(1, *IMAGE)).numel()
    module = Calls(lambda self, x: self.last(function(x).flatten(1)), last=nn.Linear(size, 3))
    assert kinds(chained(module)) == [kind, "flatten", "linear"]


def test_features_alone_and_the_models_of_the_paper():
    assert kinds(chained(nn.Linear(6, 3), (6,))) == ["linear"]
    assert kinds(chained(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), (6,))) == ["linear"]
    for name, shape, widest in (("mlp", (1, 8, 8), 0), ("cnn", (1, 28, 28), 16), ("cnn", (3, 32, 32), 120),
                                ("logistic", (1, 8, 8), 0), ("cnn-mcmahan", (1, 8, 8), 64)):  # fmt: skip
        module = build_model(name, shape, 10, seed=0)
        chain = trace_chain(module, shape)
        check_by_trial(chain, module)
        assert chain.widest_convolution == widest
    assert trace_chain(build_model("alexnet", (3, 32, 32), 10, seed=0), (3, 32, 32)).widest_convolution == 384


class OtherLinear(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class SameLinear(nn.Linear):
    """Its class computes the same, but who knows what it will do."""


class Counting(nn.Sequential):
    def forward(self, x):
        self.count = getattr(self, "count", 0) + 1
        return super().forward(x)


class Remembering(nn.Sequential):
    def __init__(self, *layers):
        super().__init__(*layers)
        self.seen = []

    def forward(self, x):
        self.seen.append(1)
        return super().forward(x)


class Otherwise(nn.Sequential):
    def __call__(self, x):
        return -super().__call__(x)


def replaced_forward():
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].forward = lambda x: x[:, :3]
    return module


def tied():
    module = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    return module


def frozen():
    module = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 3))
    module[0].requires_grad_(False)
    return module


def hooked(register):
    module = nn.Sequential(nn.Linear(6, 3))
    getattr(module[0], register)(lambda *_: None)
    return module


LINEAR = nn.Linear(6, 3)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Sequential(nn.Linear(6, 3), nn.Sigmoid()), "layer '1' is a Sigmoid"),
        (nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), "it has the buffer '1.running_mean'"),
        (nn.Sequential(nn.Linear(6, 3), nn.LayerNorm(3)), "layer '1' is a LayerNorm"),
        (nn.Sequential(nn.Linear(6, 3), nn.AlphaDropout(0.5)), "layer '1' is a AlphaDropout"),
        (nn.Sequential(nn.Linear(6, 3), nn.Dropout(1.0)), "layer '1' drops everything"),
        (nn.Sequential(OtherLinear(6, 3)), "uses '0.weight' in a way of its own"),
        (nn.Sequential(SameLinear(6, 3)), "uses '0.weight' in a way of its own"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), "cannot be traced|is a Parametrized|straight line"),
        (nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3))), "buffer|Parametrized"),
        (Counting(nn.Linear(6, 3)), "its forward pass changes the module"),
        (Remembering(nn.Linear(6, 3)), "its forward pass changes the module"),
        (Otherwise(nn.Linear(6, 3)), "the module has a way of its own to be called"),
        (replaced_forward(), "layer '0' has a way of its own to be called"),
        (tied(), "layers share a parameter"),
        (frozen(), "the parameter '0.weight' is frozen"),
        (nn.Sequential(nn.Linear(6, 3)).double(), "the parameter '0.weight' is not a plain float32 parameter"),
        (hooked("register_forward_hook"), "layer '0' has hooks"),
        (hooked("register_forward_pre_hook"), "layer '0' has hooks"),
        (hooked("register_full_backward_hook"), "layer '0' has hooks"),
        (hooked("register_full_backward_pre_hook"), "layer '0' has hooks"),
        (Calls(lambda self, x: self.a(x) + self.b(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3)), "no straight line"),
        (Calls(lambda self, x: self.a(x) * 2, a=nn.Linear(6, 3)), "calls 'mul'"),
        (Calls(lambda self, x: self.a(self.a(x)), a=nn.Linear(6, 6)), "layer 'a' runs more than once"),
        (
            Calls(lambda self, x: self.a(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3)),
            "not use the parameter 'b.weight'",
        ),
        (Calls(lambda self, x: self.a(functional.dropout(x, 0.5)), a=nn.Linear(6, 3)), "calls 'dropout'"),
        (Calls(lambda self, x: self.a(functional.dropout(x, training=self.training)), a=nn.Linear(6, 3)), "'dropout'"),
        (Calls(lambda self, x: self.a(x.relu() if self.training else x), a=nn.Linear(6, 3)), "another one in training"),
        (Calls(lambda self, x: self.a(x if x.sum() > 0 else -x), a=nn.Linear(6, 3)), "it cannot be traced"),
        (Calls(lambda self, x: self.a(x.view(2, -1)), a=nn.Linear(6, 3)), "reshapes to something else"),
        (Calls(lambda self, x: self.a(x.view(-1, 3).view(-1, 6)), a=nn.Linear(6, 3)), "reshapes to something else"),
        (Calls(lambda self, x: self.a(x.view(x.size(1), -1)), a=nn.Linear(6, 3)), "no straight line|calls 'size'"),
        (Calls(lambda self, x: self.a(x.double().float()), a=nn.Linear(6, 3)), "calls 'double'"),
        (Calls(lambda self, x: self.a(x + torch.rand(())), a=nn.Linear(6, 3)), "changes the module"),
        (Calls(lambda self, x: functional.linear(x, self.a.weight), a=nn.Linear(6, 3)), "uses 'a.weight' in a way"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else value,
)
def test_what_is_refused_and_why(module, why):
    assert re.search(why, refused(module, (6,)))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Conv2d(2, 4, 3, groups=2), "groups, dilation or padding"),
        (nn.Conv2d(2, 4, 3, dilation=2), "groups, dilation or padding"),
        (nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), "groups, dilation or padding"),
        (nn.Conv2d(2, 4, (2, 3), padding="same"), "more on one side"),
        (nn.MaxPool2d(3, dilation=2), "indices or dilation"),
        (nn.AdaptiveAvgPool2d(2), "not all of one size"),
        (nn.Dropout2d(0.5), "layer '0' is a Dropout2d"),
    ],
    ids=str,
)
def test_layers_of_images_that_are_refused(layer, why):
    assert why in refused(head(layer))


def test_inputs_and_arguments_that_are_refused():
    assert "neither an image nor a list" in refused(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), (2, 1, 1, 3))
    chained(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), (2, 3))
    assert "on an input of shape (1, 2, 3)" in refused(nn.Sequential(nn.Linear(3, 3), nn.Flatten()), (2, 3))
    assert "on an input of shape (2, 3, 6)" in refused(nn.Sequential(nn.Linear(6, 3), nn.Flatten()), (2, 3, 6))

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x, mask=None):
            return self.layer(x) if mask is None else self.layer(x * mask)

    assert "more than one argument" in refused(Two(), (6,))


def test_hooks_on_all_modules():
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert refused(nn.Linear(6, 3), (6,)) == "there are hooks on all modules"
    finally:
        hook.remove()
    chained(nn.Linear(6, 3), (6,))


def test_a_wrong_trace_is_found_by_the_trial():
    module = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    chain = chained(module, (6,))
    wrong = trace_chain(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), (6,))
    with pytest.raises(NotAChain, match="not those of the layers"):
        check_by_trial(wrong, module)
    before = [parameter.clone() for parameter in module.parameters()]
    state = torch.get_rng_state()
    check_by_trial(chain, module.train())
    assert module.training
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


TAPPED = nn.Sequential(
    nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU()), nn.Flatten(), nn.Linear(168, 5), nn.Tanh(), nn.Dropout(0.5),
    nn.Linear(5, 3),
)  # fmt: skip


@pytest.mark.parametrize(
    ("representation", "tap", "size"),
    [(None, 5, 5), ("0", 2, 168), ("0.0", 1, 168), ("1", 3, 168), ("2", 4, 5), ("3", 5, 5), ("4", 6, 5)],
)
def test_the_representation_is_the_input_of_a_layer(representation, tap, size):
    chain = chained(TAPPED, tapped=True, representation=representation)
    assert (chain.tap, chain.tapped) == (tap, size)
    x = torch.rand(7, *IMAGE)
    _, seen = chain.native().forward(chain.weights_of(TAPPED), x, tap=True)
    with Tap(TAPPED.eval(), representation) as watched, torch.no_grad():
        TAPPED(x)
        torch.testing.assert_close(seen, watched.take(), rtol=1e-5, atol=1e-6)


def test_a_representation_that_is_no_layers_input():
    assert "representation '5' is its output" in refused(TAPPED, tapped=True, representation="5")
    module = Calls(lambda self, x: self.a(x), a=nn.Linear(6, 3), unused=nn.ReLU())
    assert "'unused' is no part of the chain" in refused(module, (6,), tapped=True, representation="unused")


def test_the_module_stays_as_it_is():
    module = TAPPED.train()
    modes = [part.training for part in module.modules()]
    trace_chain(module, IMAGE)
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_hooks for part in module.modules())


def test_the_gradient_is_autograds_and_dropout_is_off_where_it_is_not_trained():
    module = chained(TAPPED, tapped=True), TAPPED.eval()
    chain, network = module
    native, w = chain.native(), chain.weights_of(network)
    x, y = torch.rand(6, *IMAGE), torch.tensor([0, 1, 2, 0, 1, 2])
    outputs, _ = native.forward(w, x, mode=Mode.KEPT)
    g = torch.zeros_like(w)
    native.backward(native.softmax_gradient(outputs, y, None, 1 / 6), None, g)
    network.zero_grad()
    functional.cross_entropy(network(x), y).backward()
    wanted = torch.cat(
        [
            (p.grad if name not in chain.orders else p.grad.permute(chain.orders[name])).flatten()
            for name, p in network.named_parameters()
        ]
    )
    torch.testing.assert_close(g, wanted, rtol=1e-4, atol=1e-6)
    first, again, other = (native.forward(w, x, mode=Mode.TRAINING, key=1, step=s)[0] for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_the_library_must_not_be_given():
    chain = chained(nn.Linear(6, 3), (6,))
    native, w, x = chain.native(), chain.weights_of(nn.Linear(6, 3)), torch.rand(4, 6)
    with pytest.raises(ValueError, match=r"w is torch.float64 of shape \(21,\); accepted: contiguous float32"):
        native.forward(w.double(), x)
    with pytest.raises(ValueError, match=r"x is torch.float32 of shape \(4, 5\)"):
        native.forward(w, x[:, :5])
    with pytest.raises(ValueError, match=r"labels are 0 to 3; accepted: 0 to 2"):
        native.evaluate(w, x, torch.tensor([0, 1, 2, 3]))
    with pytest.raises(ValueError, match=r"labels are -1 to 2"):
        native.evaluate(w, x, torch.tensor([0, 1, 2, -1]))
    with pytest.raises(RuntimeError, match=r"the native chain failed: .*kept"):
        native.backward(torch.zeros(4, 3), None, torch.zeros_like(w))
