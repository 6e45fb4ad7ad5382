"""The chain engine from Python: a chain of layers on flat float32 vectors, computed by the compiled library.

What each function computes is said in `engine/chain.h`. The library believes what it is told: a tensor's type, shape
and layout are checked whenever its address is handed over. Labels and rows are checked once, by `check_labels` and
`check_rows`, because a step is short.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.native import interface
from fedtrip.native.library import library, why_missing


class Kind(IntEnum):
    """What a layer does; the numbers of `fedtrip_kind`."""

    CONVOLUTION = 1
    LINEAR = 2
    MAX_POOL = 3
    AVERAGE_POOL = 4
    RELU = 5
    TANH = 6
    FLATTEN = 7
    DROPOUT = 8


class Mode(IntEnum):
    """What a forward pass is for; the numbers of `fedtrip_mode`."""

    OUTPUTS = 0
    """dropout off, nothing kept"""
    TRAINING = 1
    """dropout on, and what `backward` needs is kept"""
    KEPT = 2
    """dropout off, and what `backward` needs is kept"""


@dataclass(frozen=True)
class Layer:
    """One layer, field by field the `fedtrip_layer` of chain.h; what a kind does not use is 0."""

    kind: Kind
    inputs: int = 0
    outputs: int = 0
    kernel_h: int = 0
    kernel_w: int = 0
    stride_h: int = 0
    stride_w: int = 0
    pad_h: int = 0
    pad_w: int = 0
    out_h: int = 0
    out_w: int = 0
    weight: int = 0
    bias: int = 0
    divisor: int = 0
    probability: float = 0.0


class Sgd(NamedTuple):
    """The numbers of a step h = g + c + a·w; m ← βm + h; w ← w − η·m, and its constant vector c."""

    lr: float
    beta: float
    a: float
    c: Tensor | None


class NativeChain:
    """A chain that the library holds. Not for two threads at once: it keeps what `backward` needs."""

    def __init__(
        self,
        layers: Sequence[Layer],
        sample_shape: Sequence[int],
        parameters: int,
        outputs: int,
        tap: int | None = None,
        tapped: int = 0,
    ) -> None:
        """`tap` is the layer whose input is looked at, of so many numbers a sample; `outputs` the last layer's."""
        self._library = _loaded()
        self._sample = torch.Size(sample_shape)
        self._parameters, self._outputs, self._tapped = parameters, outputs, tapped
        array = (interface.Layer * len(layers))(*(interface.Layer(*astuple(layer)) for layer in layers))
        shape = (*sample_shape, 1, 1) if len(sample_shape) == 1 else (1, *sample_shape)[-3:]
        handle = self._library.fedtrip_chain_new(
            array, len(layers), *shape, len(sample_shape) == 1, parameters, -1 if tap is None else tap
        )
        if not handle:
            raise RuntimeError(f"the native chain cannot be made: {self._problem()}")
        self._handle = handle
        weakref.finalize(self, self._library.fedtrip_chain_free, handle)

    def train(
        self, w: Tensor, m: Tensor | None, x: Tensor, labels: Tensor, order: Tensor, batch: int, sgd: Sgd, key: int
    ) -> None:
        """A client's epochs of SGD on the cross entropy, in place on w and m; `order` is (epochs, samples)."""
        epochs, samples = order.shape
        self.check_labels(labels, len(x))
        check_rows(order, len(x))
        self._call(
            self._library.fedtrip_chain_train,
            self._vector("w", w), None if m is None else self._vector("m", m), self._inputs(x),
            _integers("labels", labels), _integers("order", order), samples, epochs, batch, sgd.lr, sgd.beta, sgd.a,
            None if sgd.c is None else self._vector("c", sgd.c), key,
        )  # fmt: skip

    def evaluate(self, w: Tensor, x: Tensor, labels: Tensor) -> tuple[float, int]:
        """The sums of the cross entropy and of the hits over all samples."""
        self.check_labels(labels, len(x))
        loss, hits = ctypes.c_double(), ctypes.c_int64()
        self._call(
            self._library.fedtrip_chain_evaluate,
            self._vector("w", w), self._inputs(x), _integers("labels", labels), None, len(x),
            ctypes.byref(loss), ctypes.byref(hits),
        )  # fmt: skip
        return loss.value, hits.value

    def forward(
        self,
        w: Tensor,
        x: Tensor,
        rows: Tensor | None = None,
        *,
        mode: Mode = Mode.OUTPUTS,
        key: int = 0,
        step: int = 0,
        tap: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The outputs (n, outputs) of all samples, or of rows that were checked, and with `tap` what passes there.

        `key` and `step` decide what dropout leaves in training.
        """
        samples = len(x) if rows is None else len(rows)
        self._kept = w, x  # `backward` reads them again
        outputs = torch.empty(samples, self._outputs)
        tapped = torch.empty(samples, self._tapped) if tap else None
        self._call(
            self._library.fedtrip_chain_forward,
            self._vector("w", w), self._inputs(x), _rows(rows), samples, mode, key, step,
            outputs.data_ptr(), None if tapped is None else tapped.data_ptr(),
        )  # fmt: skip
        return outputs, tapped

    def backward(self, d_outputs: Tensor, d_tapped: Tensor | None, g: Tensor, *, accumulate: bool = False) -> None:
        """The gradient of every parameter into g, or added to it, from that of the last pass that was kept."""
        samples = len(d_outputs)
        self._call(
            self._library.fedtrip_chain_backward,
            samples, _floats("d_outputs", d_outputs, (samples, self._outputs)),
            None if d_tapped is None else _floats("d_tapped", d_tapped, (samples, self._tapped)),
            self._vector("g", g), accumulate,
        )  # fmt: skip

    def softmax_gradient(self, outputs: Tensor, labels: Tensor, rows: Tensor | None, scale: float) -> Tensor:
        """scale·(softmax(z) − onehot(label)), the gradient of the cross entropy; labels and rows were checked."""
        samples = len(labels) if rows is None else len(rows)
        d = torch.empty_like(outputs)
        self._library.fedtrip_softmax_gradient(
            _floats("outputs", outputs, (samples, self._outputs)), _integers("labels", labels),
            _rows(rows), samples, self._outputs, scale, d.data_ptr(),
        )  # fmt: skip
        return d

    def sgd_step(self, w: Tensor, m: Tensor | None, g: Tensor, sgd: Sgd) -> None:
        """One step, the same bits as in `train`."""
        self._library.fedtrip_sgd_step(
            self._vector("w", w), None if m is None else self._vector("m", m), self._vector("g", g),
            None if sgd.c is None else self._vector("c", sgd.c), self._parameters, sgd.lr, sgd.beta, sgd.a,
        )  # fmt: skip

    def _call(self, function: ctypes._NamedFuncPointer, *arguments: object) -> None:
        if function(self._handle, *arguments):
            raise RuntimeError(f"the native chain failed: {self._problem()}")

    def _problem(self) -> str:
        return str(self._library.fedtrip_problem().decode())

    def _vector(self, name: str, vector: Tensor) -> int:
        return _floats(name, vector, (self._parameters,))

    def _inputs(self, x: Tensor) -> int:
        return _floats("x", x, (len(x), *self._sample))

    def check_labels(self, labels: Tensor, samples: int) -> None:
        """Refuse labels that are not one output's number for each sample."""
        if labels.shape != (samples,):
            raise ValueError(f"labels have the shape {tuple(labels.shape)}; accepted: ({samples},)")
        low, high = (int(labels.min()), int(labels.max())) if samples else (0, 0)
        if not 0 <= low <= high < self._outputs:
            raise ValueError(f"labels are {low} to {high}; accepted: 0 to {self._outputs - 1}")


def check_rows(rows: Tensor, samples: int) -> None:
    """Refuse rows that are no places among so many samples."""
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < samples:
        raise ValueError(f"rows are {int(rows.min())} to {int(rows.max())}; accepted: 0 to {samples - 1}")


def _floats(name: str, tensor: Tensor, shape: Sequence[int]) -> int:
    if tensor.dtype != torch.float32 or tuple(tensor.shape) != tuple(shape) or not tensor.is_contiguous():
        raise ValueError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}; accepted: contiguous float32 of {tuple(shape)}"
        )
    return tensor.data_ptr()


def _rows(rows: Tensor | None) -> int | None:
    return None if rows is None else _integers("rows", rows)


def _integers(name: str, tensor: Tensor) -> int:
    if tensor.dtype != torch.int64 or not tensor.is_contiguous():
        raise ValueError(f"{name} is {tensor.dtype}; accepted: contiguous int64")
    return tensor.data_ptr()


def _loaded() -> ctypes.CDLL:
    found = library()
    if found is None:
        raise UserError(
            f"the experiment is computed by the native library, which is missing here: {why_missing()}; accepted: a "
            "machine that has it, or compute torch"
        )
    return found
