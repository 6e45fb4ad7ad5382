"""A data set in memory: raw arrays as they were stored, and how an input is normalised when it is used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fedtrip.data.mapped import FileSpan, MappedFile
from fedtrip.inputs import Inputs, InputSpec, tensors_of
from fedtrip.targets import TargetKind, kind_of


@dataclass(frozen=True)
class DataSet:
    """Training and test samples. One input stays raw (uint8 or float32) and is normalised where it is used; integers,
    and several inputs, are used as they are.

    `mean` and `std` hold one number, or one for each channel (dimension 1 of the inputs), in units of the
    value that the model would see without them: [0, 1] for uint8, the stored values for float32.
    `client_train` names the client of each training sample where the data come already split, `client_test` that of
    each test sample.
    """

    name: str
    x_train: Inputs
    y_train: Tensor
    x_test: Inputs
    y_test: Tensor
    classes: int
    """how many there are, labels being 0 to classes − 1; 0 if the targets are numbers (float32)"""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    client_train: Tensor | None = None
    client_test: Tensor | None = None
    test_inputs: Inputs | None = None
    """`x_test` normalised, if that was done already"""
    class_names: tuple[str, ...] = ()
    """what the numbers of the classes stand for, where the source has names for them"""
    client_names: tuple[str, ...] = ()
    """what the numbers of the clients stand for, likewise"""
    input_names: tuple[str, ...] = ()
    """what the numbers of a sample are: columns of a table, each value of a text on its own"""
    files: tuple[MappedFile, ...] = ()
    """the arrays that lie in files, which other processes map too"""

    def with_test_inputs(self) -> DataSet:
        """The same data set with its test inputs normalised once for all evaluations."""
        return self if self.test_inputs is not None else replace(self, test_inputs=self.normalised(self.x_test))

    def file_of(self, tensor: Tensor) -> FileSpan | None:
        """Where in a file one of the tensors, or a part of it, lies; None if in none."""
        return next((span for file in self.files if (span := file.span_of(tensor)) is not None), None)

    @cached_property
    def inputs(self) -> InputSpec:
        """What a model is given of a sample."""
        spec = InputSpec.of(self.x_train)
        if spec.kind != "one" or not isinstance(self.x_train, Tensor) or not isinstance(self.x_test, Tensor):
            return spec
        if is_normalised(self.x_train):
            return InputSpec.numbers(*spec.shape)
        largest = [int(x.max()) for x in (self.x_train, self.x_test) if x.numel()]
        return InputSpec(spec.kind, spec.parts, vocabulary=max(largest) + 1)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one input, channels first."""
        return self.inputs.shape

    @property
    def targets(self) -> TargetKind:
        """What the targets are."""
        return kind_of(self.y_train)

    @property
    def clients(self) -> int | None:
        """How many clients the data are split into, or None if they are not."""
        return None if self.client_train is None else int(self.client_train.max()) + 1

    def normalised(self, x: Inputs) -> Inputs:
        """(x − mean) / std as float32, with uint8 pixels first scaled to [0, 1]; integers and several inputs as is."""
        if not isinstance(x, Tensor) or not is_normalised(x):
            return x
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        shape = (-1,) + (1,) * (x.dim() - 2) if len(self.mean) > 1 else ()
        mean = torch.tensor(self.mean, dtype=torch.float32).mul_(scale).reshape(shape)
        std = torch.tensor(self.std, dtype=torch.float32).mul_(scale).reshape(shape)
        return x.to(torch.float32).sub_(mean).div_(std) if x.dtype == torch.uint8 else (x - mean).div_(std)

    def with_channel(self) -> DataSet:
        """The same samples of numbers (n, H, W) as images (n, 1, H, W)."""
        images = {name: getattr(self, name).unsqueeze(1) for name in ("x_train", "x_test")}
        return replace(self, **images, test_inputs=None)

    def sha256(self) -> str:
        """A digest of every array and of the normalisation: what a stored experiment demands again."""
        digest = hashlib.sha256(repr((self.classes, self.mean, self.std)).encode())
        for x, y in ((self.x_train, self.y_train), (self.x_test, self.y_test)):
            if isinstance(x, dict):
                digest.update(repr(tuple(x)).encode())
            for tensor in (*tensors_of(x), y):
                _add(digest, tensor)
        for owners in (self.client_train, self.client_test):
            if owners is not None:
                _add(digest, owners)
        return digest.hexdigest()


def is_normalised(x: Tensor) -> bool:
    """Whether an only input of this type is normalised: pixels and numbers are, token ids are not."""
    return x.dtype == torch.uint8 or x.is_floating_point()


def _add(digest: hashlib._Hash, tensor: Tensor) -> None:
    digest.update(repr((str(tensor.dtype), tuple(tensor.shape))).encode())
    digest.update(tensor.contiguous().numpy().data)
