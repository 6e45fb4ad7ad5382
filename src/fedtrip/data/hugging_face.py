"""Data sets of Hugging Face's `datasets`: a folder that `save_to_disk` wrote, or a name on the hub.

Columns are read from their Arrow tables, with the types that they have there; pictures are decoded to pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.arrays import Arrays, from_arrays
from fedtrip.data.columns import HELD_OUT, Columns, chosen, held_out, numbered, target_values
from fedtrip.data.dataset import DataSet
from fedtrip.data.images import pixels_of
from fedtrip.data.memory import check_size
from fedtrip.data.normalisation import Numbers
from fedtrip.data.sources import Source, share_of
from fedtrip.errors import UserError, shortened
from fedtrip.targets import TargetKind

TRAIN, TEST = "train", "test"


@dataclass(frozen=True)
class _Part:
    """The rows of the training or the test set."""

    called: str
    rows: Any
    """a `datasets.Dataset`"""


def load_hugging_face(source: Source, mean: Numbers | None, std: Numbers | None, targets: TargetKind) -> DataSet:
    """The data set of `hf:FOLDER` or `hf:NAME`, with `inputs=`, `target=`, `client=`, `test=` (split or share)."""
    called = f"hf:{source.place}" if source.is_hub_name else str(source.path)
    train, test = _parts(called, _read(called, source), source)
    columns = chosen(train.called, train.rows.column_names, source)
    lacking = [name for name in (*columns.all, columns.client) if name and name not in test.rows.column_names]
    if lacking:
        raise UserError(f"{test.called}: lacks the column {', '.join(lacking)}, which {train.called} has")
    y_train, y_test, class_names = _targets(train, test, columns, targets)
    clients_train, clients_test, client_names = _clients(train, test, columns.client)
    try:
        dataset = from_arrays(
            _inputs(train, columns),
            y_train,
            _inputs(test, columns),
            y_test,
            client_train=clients_train,
            client_test=clients_test,
            name=f"hf:{source.place if source.is_hub_name else source.path.name}",
            mean=mean,
            std=std,
            classes=len(class_names) if targets == "classes" and _is_class_label(train, columns) else None,
            targets=targets,
        )
    except UserError as error:
        raise UserError(f"{called}: {error}") from error
    return replace(dataset, class_names=class_names, client_names=client_names)


def _read(called: str, source: Source) -> Any:
    """What is stored there: a `datasets.Dataset`, or a `DatasetDict` of them."""
    try:
        import datasets
    except ImportError:
        raise UserError(
            f"{called}: such data need Hugging Face's datasets; install it with: pip install 'fedtrip[hf]'"
        ) from None
    if not source.is_hub_name:
        try:
            return datasets.load_from_disk(str(source.path))
        except Exception as error:  # of Arrow, JSON, missing files and more: all of them say that it is no such folder
            raise UserError(
                f"{called}: cannot be read ({shortened(error)}); accepted: a folder written by save_to_disk"
            ) from error
    try:
        return datasets.load_dataset(source.place)
    except Exception as error:  # of the network, the hub, the builder
        raise UserError(
            f"{called}: is no folder here, and was not found on the hub ({shortened(error)}); accepted: a folder "
            "written by save_to_disk, or a name on the hub, with a network"
        ) from error


def _parts(called: str, stored: Any, source: Source) -> tuple[_Part, _Part]:
    """Training and test rows: two splits, or one of which a share is held out."""
    wanted = source.options.get("test")
    share = None if wanted is None else share_of(wanted)
    rows = stored
    if isinstance(stored, Mapping):
        if TRAIN not in stored:
            raise UserError(f"{called}: has the splits {', '.join(map(str, stored))}; accepted: one called {TRAIN}")
        name = TEST if wanted is None else wanted
        if share is None and name in stored:
            return _part(f"{called}: {TRAIN}", stored[TRAIN]), _part(f"{called}: {name}", stored[name])
        rows = stored[TRAIN]
    if wanted is not None and share is None:
        splits = (
            f", which has {', '.join(map(str, stored))}" if isinstance(stored, Mapping) else ", which has no splits"
        )
        raise UserError(f"{called}: test is {wanted}{splits}; accepted: a split's name, or a share such as 0.2")
    share = HELD_OUT if share is None else share
    if not 0 < share < 1:
        raise UserError(f"{called}: test is {wanted}; accepted: a share above 0 and below 1, or a split's name")
    return _divided(called, rows, source, share)


def _divided(called: str, rows: Any, source: Source, share: float) -> tuple[_Part, _Part]:
    whole = _part(called, rows)
    client = chosen(called, rows.column_names, source).client
    owners = np.zeros(len(rows), np.int64) if client is None else numbered(_scalars(whole, client))[0]
    is_test = held_out(owners, share)
    if not is_test.any():
        raise UserError(f"{called}: has too few rows to hold out a test set; accepted: two of a client, or test=SPLIT")
    return _Part(called, rows.select(np.flatnonzero(~is_test))), _Part(called, rows.select(np.flatnonzero(is_test)))


def _part(called: str, rows: Any) -> _Part:
    if not len(rows):
        raise UserError(f"{called}: has no rows")
    return _Part(called, rows)


def _inputs(part: _Part, columns: Columns) -> Arrays:
    """One input, or several by the names of their columns."""
    arrays = {name: _column(part, name) for name in columns.inputs}
    if len(arrays) > 1:
        return arrays
    (only,) = arrays.values()
    return only[:, None] if only.ndim == 1 else only


def _targets(
    train: _Part, test: _Part, columns: Columns, kind: TargetKind
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    if len(columns.targets) != 1:
        raise UserError(f"{train.called}: target names {len(columns.targets)} columns; accepted: one")
    (name,) = columns.targets
    if _is_class_label(train, columns) and kind == "classes":
        if train.rows.features[name] != test.rows.features[name]:
            raise UserError(f"{test.called}: the classes of column '{name}' are not those of {train.called}")
        return _column(train, name), _column(test, name), tuple(train.rows.features[name].names)
    both = [_plain(part, name) for part in (train, test)]
    if kind in ("labels", "tokens") or both[0].ndim > 1:
        return both[0], both[1], ()
    if both[0].dtype.kind != both[1].dtype.kind:
        raise UserError(f"{test.called}: column '{name}' is of another type than in {train.called}")
    values, class_names = target_values(f"{train.called}: column '{name}'", np.concatenate(both), kind)
    return values[: len(both[0])], values[len(both[0]) :], class_names


def _clients(
    train: _Part, test: _Part, name: str | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None, tuple[str, ...]]:
    """The client of each row, and what the numbers stand for; of the test rows only if every client has some."""
    if name is None:
        return None, None, ()
    first, second = _scalars(train, name), _scalars(test, name)
    owners, names = numbered(np.concatenate([first, second]))
    mine, theirs = owners[: len(first)], owners[len(first) :]
    if train.called == test.called:  # held out here: a client with one row has none to test on
        return mine, theirs if len(np.unique(theirs)) == len(names) else None, names
    alone = np.setxor1d(mine, theirs)
    if len(alone):
        raise UserError(
            f"{test.called}: the client '{names[alone[0]]}' of column '{name}' is in one of the two splits only; "
            "accepted: the same clients in both, or test=SHARE"
        )
    return mine, theirs, names


def _is_class_label(part: _Part, columns: Columns) -> bool:
    return type(part.rows.features[columns.targets[0]]).__name__ == "ClassLabel"


def _scalars(part: _Part, name: str) -> NDArray[Any]:
    values = _plain(part, name)
    if values.ndim != 1:
        raise UserError(f"{part.called}: column '{name}' holds lists; accepted: one number or text a row")
    return values


def _plain(part: _Part, name: str) -> NDArray[Any]:
    """A column of numbers, or of one text a row."""
    import pyarrow

    column = part.rows.select_columns([name]).with_format("arrow")[:].column(name)
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        _check_no_nulls(part, name, column)
        return np.asarray(column.to_pylist(), dtype=object)
    return _column(part, name)


def _column(part: _Part, name: str) -> NDArray[Any]:
    """A column of numbers, of lists of numbers (of equal lengths) or of pictures."""
    import pyarrow

    if type(part.rows.features[name]).__name__ == "Image":
        return _pictures(part, name)
    column = part.rows.select_columns([name]).with_format("arrow")[:].column(name)
    chunks = [chunk.storage if isinstance(chunk, pyarrow.ExtensionArray) else chunk for chunk in column.chunks]
    values: Any = pyarrow.concat_arrays(chunks)
    kinds, shape = pyarrow.types, [len(values)]
    _check_no_nulls(part, name, values)
    while kinds.is_list(values.type) or kinds.is_large_list(values.type) or kinds.is_fixed_size_list(values.type):
        shape.append(_length(part, name, values, shape[0]))
        values = values.flatten()
        _check_no_nulls(part, name, values)
    if not (kinds.is_integer(values.type) or kinds.is_floating(values.type) or kinds.is_boolean(values.type)):
        raise UserError(
            f"{part.called}: column '{name}' holds values of type {values.type}; accepted: numbers, lists of numbers "
            "and pictures; name other columns by inputs="
        )
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(shape)


def _length(part: _Part, name: str, values: Any, rows: int) -> int:
    """The length that all these lists have."""
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(values).to_numpy()
    wrong = np.flatnonzero(lengths != lengths[0])
    if len(wrong):
        row = int(wrong[0]) * rows // len(lengths)
        raise UserError(
            f"{part.called}: column '{name}' has lists of {lengths[0]} and, in row {row + 1}, of {lengths[wrong[0]]}; "
            "accepted: equal lengths; pad them before"
        )
    return int(lengths[0])


def _check_no_nulls(part: _Part, name: str, values: Any) -> None:
    if values.null_count:
        raise UserError(
            f"{part.called}: column '{name}' has no value in {values.null_count:,} places; accepted: a value everywhere"
        )


def _pictures(part: _Part, name: str) -> NDArray[np.uint8]:
    """Pixels (n, channels, height, width)."""
    rows = part.rows.select_columns([name])
    pixels = np.empty(0, dtype=np.uint8)
    for row in range(len(rows)):
        called = f"{part.called}: column '{name}', row {row + 1}"
        try:
            image = rows[row][name]
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow says of bytes that make no sense
            raise UserError(f"{called}: is no picture that can be read ({shortened(error)})") from error
        if image is None:
            raise UserError(f"{called}: there is no picture; accepted: one in every row")
        one = pixels_of(called, image)
        if row == 0:
            check_size(part.called, "all pictures", len(rows) * one.size)
            pixels = np.empty((len(rows), *one.shape), dtype=np.uint8)
        if one.shape != pixels.shape[1:]:
            raise UserError(f"{called}: has the shape {one.shape}, but row 1 {pixels.shape[1:]}; accepted: one size")
        pixels[row] = one
    return pixels
