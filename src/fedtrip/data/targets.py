"""Targets as a data set holds them, checked once: classes, labels, numbers or tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.data.values import Array, as_float32, as_integers, as_numpy, as_tensor
from fedtrip.errors import UserError
from fedtrip.targets import FITTING_TASK, IGNORED, IN_WORDS, TargetKind

MOST_CLASSES = 1_000_000
"""A label beyond is an identifier, not a class; a model would get that many outputs."""
MANY_CLASSES, FEWEST_OF_A_CLASS = 20, 2
"""So many classes with fewer samples each on average are no classes, but a column of numbers."""


def as_targets(name: str, array: Array, count: int, kind: TargetKind) -> Tensor:
    """Targets of `count` samples: int64 classes, bool labels, float32 numbers or int64 tokens."""
    values = as_numpy(name, array)
    if len(values) != count and values.ndim:
        raise UserError(f"{name} has {len(values):,} entries for {count:,} samples")
    reader = {"classes": _classes, "labels": _labels, "numbers": _numbers, "tokens": _tokens}[kind]
    return as_tensor(reader(name, values, count))


def counted(train: Tensor, test: Tensor, kind: TargetKind, classes: int | None) -> int:
    """How many classes (labels, tokens) there are; 0 for numbers. `classes` is what the user says of it."""
    if kind == "numbers":
        return 0
    if kind == "labels":
        return int(train.shape[1])
    found = int(max(train.max(), test.max())) + 1
    if found < 1:
        raise UserError(f"y_train and y_test hold nothing but {IGNORED}; accepted: tokens that count")
    if classes is None:
        return found
    if classes < found:
        raise UserError(f"classes = {classes}, but the labels go up to {found - 1}; give at least {found}")
    return classes


def check_they_are_classes(name: str, targets: Tensor) -> None:
    """Refuse a column of numbers that only looks like classes: nearly every sample would have its own."""
    classes = int(targets.max()) + 1
    if classes >= MANY_CLASSES and classes * FEWEST_OF_A_CLASS > len(targets):
        raise UserError(
            f"{name} would be {classes} classes for {len(targets)} samples; accepted: fewer of them, or `classes` if "
            "they are really so many; numbers are targets of the task regression (as floating point)"
        )


def _classes(name: str, values: NDArray[Any], count: int) -> NDArray[np.int64]:
    if values.ndim != 1:
        raise _wrong_shape(name, values, "classes", (count,))
    if values.dtype.kind == "f":
        raise UserError(
            f"{name} holds floating-point numbers, of type {values.dtype}, and no integers; accepted: class numbers "
            f"from 0, or task {FITTING_TASK['numbers']}"
        )
    labels = as_integers(name, values)
    if labels.min() < 0:
        raise UserError(f"{name} has the label {labels.min()}; labels are numbered from 0")
    _check_most(name, labels)
    return labels


def _tokens(name: str, values: NDArray[Any], count: int) -> NDArray[np.int64]:
    if values.ndim < 2 or values.dtype.kind in "fb":
        raise _wrong_shape(name, values, "tokens", (count, "places"))
    tokens = as_integers(name, values)
    wrong = tokens[(tokens < 0) & (tokens != IGNORED)]
    if wrong.size:
        raise UserError(f"{name} has the token {wrong[0]}; accepted: tokens from 0, or {IGNORED} where none counts")
    _check_most(name, tokens)
    return tokens


def _labels(name: str, values: NDArray[Any], count: int) -> NDArray[np.bool_]:
    if values.ndim != 2:
        raise _wrong_shape(name, values, "labels", (count, "labels"))
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        told = f"{name} has the value {wrong[0]}; accepted: 0 and 1, {IN_WORDS['labels']}"
        raise UserError(told + _or_the_fitting_task(values, "labels"))
    return values.astype(np.bool_)


def _numbers(name: str, values: NDArray[Any], count: int) -> NDArray[np.float32]:
    if values.dtype.kind != "f":
        told = f"{name} holds integers, of type {values.dtype}; accepted: floating-point targets"
        raise UserError(told + _or_the_fitting_task(values, "numbers"))
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise _wrong_shape(name, values, "numbers", (count,))
    return as_float32(name, values)


def _check_most(name: str, values: NDArray[np.int64]) -> None:
    if values.max() >= MOST_CLASSES:
        raise UserError(f"{name} has the label {values.max()}; at most {MOST_CLASSES:,} classes are accepted")


def _wrong_shape(name: str, values: NDArray[Any], kind: TargetKind, wanted: tuple[object, ...]) -> UserError:
    shape = f"({', '.join(map(str, wanted))}{',' if len(wanted) == 1 else ''})"
    told = f"{name} has the shape {values.shape} and type {values.dtype}; it must be {shape}: {IN_WORDS[kind]}"
    return UserError(told + _or_the_fitting_task(values, kind))


def _or_the_fitting_task(values: NDArray[Any], wanted: TargetKind) -> str:
    """The end of a sentence about targets that are not what was wanted: the task that such an array fits."""
    seems: TargetKind
    if values.dtype.kind == "f":
        seems = "numbers"
    elif values.ndim == 2 and ((values == 0) | (values == 1)).all():
        seems = "labels"
    else:
        seems = "classes" if values.ndim == 1 else "tokens"
    return "" if seems == wanted or values.ndim == 0 else f", or task {FITTING_TASK[seems]}"
