"""A module as a chain of layers that the native engine can compute, found by tracing it with torch.fx.

Only what surely computes the same becomes a chain: every call is of a layer or a function that the engine has, one
after the other in a straight line. All else (branches, hooks, BatchNorm, shared weights, other number types) is
`NotAChain`, with the reason, and is computed by torch.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import module as torch_module

from fedtrip.layout import in_order
from fedtrip.models.chain_layers import FUNCTIONS, METHODS, MODULES, ChainBuilder, NotAChain
from fedtrip.models.check import has_hooks, left_as_it_is
from fedtrip.models.representation import representation_layer
from fedtrip.native.chain import Kind, Layer, NativeChain
from fedtrip.randomness import stream, uniforms

TRIAL, TOLERANCE = 3, 1e-3
"""Samples with which a chain is tried, and how far its outputs may be from the module's, beside the largest of them."""


@dataclass(frozen=True)
class Chain:
    """The layers of a module, and how its parameters lie in the flat vector."""

    layers: tuple[Layer, ...]
    sample_shape: tuple[int, ...]
    parameters: int
    outputs: int
    orders: Mapping[str, tuple[int, ...]]
    """the order of a weight's dimensions, slowest first, by the weight's name, where it is not its own"""
    tap: int | None = None
    """the layer whose input is the representation"""
    tapped: int = 0
    """the representation's numbers for each sample"""

    @property
    def widest_convolution(self) -> int:
        """The most channels that go into a convolution or come out of one; 0 without any."""
        wide = [max(layer.inputs, layer.outputs) for layer in self.layers if layer.kind == Kind.CONVOLUTION]
        return max(wide, default=0)

    def native(self) -> NativeChain:
        """The chain in the library."""
        return NativeChain(self.layers, self.sample_shape, self.parameters, self.outputs, self.tap, self.tapped)

    def weights_of(self, module: nn.Module) -> Tensor:
        """The module's parameters as the flat vector of this chain."""
        w, start = torch.empty(self.parameters), 0
        for name, parameter in module.named_parameters():
            span = w[start : start + parameter.numel()]
            in_order(span, parameter.shape, self.orders.get(name)).copy_(parameter.detach())
            start += parameter.numel()
        return w

    def __str__(self) -> str:
        return ", ".join(_words(layer) for layer in self.layers)


def trace_chain(
    module: nn.Module, sample_shape: tuple[int, ...], *, tapped: bool = False, representation: str | None = None
) -> Chain:
    """The module as a chain for samples of this shape; `NotAChain` says why it is none.

    With `tapped` the chain has a tap at the module's representation, or at the layer with this name.
    """
    _check(module, sample_shape)
    trained, evaluated = (_follow(module, sample_shape, training) for training in (True, False))
    if trained.builder.layers != evaluated.builder.layers:
        raise NotAChain("its forward pass is another one in training")
    builder = trained.builder
    unused = [name for name, _ in module.named_parameters() if name not in builder.used]
    if unused:
        raise NotAChain(f"its forward pass does not use the parameter '{unused[0]}' as a weight or bias of a layer")
    if len(builder.shape) != 1:
        raise NotAChain(f"its outputs have the shape {builder.shape}")
    chain = Chain(
        layers=tuple(builder.layers),
        sample_shape=tuple(sample_shape),
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        outputs=builder.shape[0],
        orders=dict(builder.orders),
    )
    if not tapped:
        return chain
    tap = _tap(module, representation, trained, len(chain.layers))
    return replace(chain, tap=tap, tapped=trained.sizes[tap])


def check_by_trial(chain: Chain, module: nn.Module) -> None:
    """Compare the native outputs with the module's own, on random inputs: whatever was traced wrongly is found here."""
    drawn = uniforms(stream(0, "trial of a chain"), TRIAL * math.prod(chain.sample_shape))
    x = torch.from_numpy(2 * drawn - 1).to(torch.float32).view(TRIAL, *chain.sample_shape)
    with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        expected = module.eval()(x)
    try:
        outputs, _ = chain.native().forward(chain.weights_of(module), x)
    except RuntimeError as problem:
        raise NotAChain(str(problem)) from None
    scale = float(expected.abs().nan_to_num(0.0, 0.0, 0.0).max())
    if outputs.shape != expected.shape or not torch.allclose(
        outputs, expected, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True
    ):
        raise NotAChain("its outputs are not those of the layers that it was traced to")


def _check(module: nn.Module, sample_shape: tuple[int, ...]) -> None:
    """Refuse what tracing would not see."""
    if len(sample_shape) not in (1, 2, 3):
        raise NotAChain(f"its samples have the shape {sample_shape}, which is neither an image nor a list of features")
    for name, layer in module.named_modules():
        if has_hooks(layer):
            raise NotAChain(f"{_called(name)} has hooks")
        if "forward" in vars(layer) or type(layer).__call__ is not nn.Module.__call__:
            raise NotAChain(f"{_called(name)} has a way of its own to be called")
    if any((torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks,
            torch_module._global_backward_hooks, torch_module._global_backward_pre_hooks)):  # fmt: skip
        raise NotAChain("there are hooks on all modules")
    if next(module.named_buffers(), None) is not None:
        raise NotAChain(f"it has the buffer '{next(module.named_buffers())[0]}'")
    every = list(module.named_parameters(remove_duplicate=False))
    if len({id(parameter) for _, parameter in every}) != len(every):
        raise NotAChain("layers share a parameter")
    for name, parameter in every:
        if not parameter.requires_grad:
            raise NotAChain(f"the parameter '{name}' is frozen")
        if type(parameter) is not nn.Parameter or parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise NotAChain(f"the parameter '{name}' is not a plain float32 parameter")


def _called(name: str) -> str:
    return f"layer '{name}'" if name else "the module"


@dataclass
class _Followed:
    """A traced module's layers, and where each module begins and ends among them."""

    builder: ChainBuilder
    begins: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    """numbers of a sample that go into each layer"""


def _follow(module: nn.Module, sample_shape: tuple[int, ...], training: bool) -> _Followed:
    """Trace a copy of the module in one of its modes, and make layers of its calls."""
    starts, start = {}, 0
    for name, parameter in module.named_parameters():
        starts[name] = start
        start += parameter.numel()
    # (H, W) is an image of one channel: what layers do with it is the same, or the trial finds that it is not
    shape = (1, *sample_shape) if len(sample_shape) == 2 else tuple(sample_shape)
    followed = _Followed(ChainBuilder(shape, starts, is_flat=len(sample_shape) == 1))
    if type(module) in MODULES:  # a single layer, which tracing would look into
        followed.sizes = [math.prod(sample_shape)]
        followed.begins[""] = 0
        MODULES[type(module)](followed.builder, "", module)
        return followed
    shared = {id(parameter): parameter for parameter in module.parameters()}  # a large model is not copied
    module = copy.deepcopy(module, shared).train(training)
    before = _attributes(module)
    try:
        with torch.random.fork_rng(devices=[]):
            graph = fx.Tracer().trace(module)
    except Exception as problem:
        raise NotAChain(f"it cannot be traced: {' '.join(str(problem).split())[:100]}") from None
    if _attributes(module) != before:
        raise NotAChain("its forward pass changes the module")
    _add_calls(followed, module, graph.nodes)
    return followed


def _attributes(module: nn.Module) -> list[dict[str, Any]]:
    """Everything that the module and its layers hold, so that a change is seen."""
    return [
        {key: copy.copy(value) if isinstance(value, (list, dict, set)) else value for key, value in vars(part).items()}
        for part in module.modules()
    ]


def _add_calls(followed: _Followed, module: nn.Module, nodes: Iterable[fx.Node]) -> None:
    """Each call in its turn; every one takes what the one before it gave, and nothing else does."""
    builder = followed.builder
    last: fx.Node | None = None
    batch: set[fx.Node] = set()
    """the number of samples, which a module may ask for to flatten its input"""
    for node in nodes:
        if node.op == "placeholder":
            if last is not None:
                raise NotAChain("its forward pass takes more than one argument")
            last = node
        elif _is_shape(node):
            continue
        elif _is_batch(node):
            batch.add(node)
        elif node.op == "get_attr":
            raise NotAChain(f"its forward pass uses '{node.target}' in a way of its own")
        elif not node.args or node.args[0] is not last:
            raise NotAChain(f"it is no straight line of layers at '{node.name}'")
        elif node.op == "output":
            return
        else:
            begin, size = len(builder.layers), math.prod(builder.shape)
            _add_call(builder, module, node, batch)
            followed.sizes += [size] * (len(builder.layers) - begin)
            for name in node.meta.get("nn_module_stack", {}):
                followed.begins[name], followed.ends[name] = begin, len(builder.layers)
            last = node


def _add_call(builder: ChainBuilder, module: nn.Module, node: fx.Node, batch: set[fx.Node]) -> None:
    """The layer that one call is."""
    if node.op == "call_module":
        name = str(node.target)
        layer = module.get_submodule(name)
        if type(layer) not in MODULES or len(node.args) != 1 or node.kwargs:
            raise NotAChain(f"layer '{name}' is a {type(layer).__name__}")
        MODULES[type(layer)](builder, name, layer)
        return
    if (node.op == "call_method" and node.target in ("view", "reshape")) or node.target is torch.reshape:
        _reshape(builder, node, batch)
        return
    known = FUNCTIONS.get(node.target) if node.op == "call_function" else METHODS.get(str(node.target))
    called = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
    if node.op not in ("call_function", "call_method") or known is None or len(node.all_input_nodes) != 1:
        raise NotAChain(f"its forward pass calls '{called}'")
    try:
        known(builder, *node.args[1:], **node.kwargs)
    except TypeError:
        raise NotAChain(f"its forward pass calls '{called}' with {node.args[1:]}, {node.kwargs}") from None


def _is_shape(node: fx.Node) -> bool:
    """`x.shape` or `x.size()`."""
    if node.op == "call_function" and node.target is getattr:
        return node.args[1:] == ("shape",)
    return node.op == "call_method" and node.target == "size" and len(node.args) == 1 and not node.kwargs


def _is_batch(node: fx.Node) -> bool:
    """`x.size(0)`, `x.shape[0]` or `x.size()[0]`: the number of samples, whichever value of the chain x is."""
    if node.op == "call_method" and node.target == "size":
        return bool(node.args[1:] == (0,) and not node.kwargs)
    return (
        node.op == "call_function"
        and node.target is operator.getitem
        and isinstance(node.args[0], fx.Node)
        and _is_shape(node.args[0])
        and bool(node.args[1] == 0)
    )


def _reshape(builder: ChainBuilder, node: fx.Node, batch: set[fx.Node]) -> None:
    """`x.view(x.size(0), −1)` and its like, which keep the samples and flatten the rest."""
    wanted = node.args[1] if len(node.args) == 2 and isinstance(node.args[1], (tuple, list)) else node.args[1:]
    features = math.prod(builder.shape)
    if node.kwargs or len(wanted) != 2:
        raise NotAChain(f"'{node.name}' reshapes to something else than (samples, features)")
    rows, columns = wanted
    by_batch = isinstance(rows, fx.Node) and rows in batch and columns in (-1, features)
    if not (by_batch or (rows == -1 and columns == features)):
        raise NotAChain(f"'{node.name}' reshapes to something else than (samples, features)")
    builder.flatten()


def _tap(module: nn.Module, representation: str | None, followed: _Followed, layers: int) -> int:
    """Where in the chain the representation passes."""
    site = representation_layer(module, representation)
    where = followed.begins if site.side == "input" else followed.ends
    if site.name not in where:
        raise NotAChain(f"its representation '{site.name}' is no part of the chain")
    if where[site.name] >= layers:
        raise NotAChain(f"its representation '{site.name}' is its output")
    return where[site.name]


def _words(layer: Layer) -> str:
    """A layer in a few words."""
    kernel, stride = (layer.kernel_h, layer.kernel_w), (layer.stride_h, layer.stride_w)
    window = f"{layer.kernel_h}×{layer.kernel_w}"
    if stride != ((1, 1) if layer.kind == Kind.CONVOLUTION else kernel):
        window += f" stride {layer.stride_h}×{layer.stride_w}"
    if layer.pad_h or layer.pad_w:
        window += f" padding {layer.pad_h}×{layer.pad_w}"
    words = {
        Kind.CONVOLUTION: f"convolution {layer.inputs}→{layer.outputs} {window}",
        Kind.LINEAR: f"linear {layer.inputs}→{layer.outputs}",
        Kind.MAX_POOL: f"max-pool {window}",
        Kind.AVERAGE_POOL: f"average-pool {window}",
        Kind.RELU: "ReLU",
        Kind.TANH: "tanh",
        Kind.FLATTEN: "flatten",
        Kind.DROPOUT: f"dropout {layer.probability:g}",
    }
    return words[layer.kind]
