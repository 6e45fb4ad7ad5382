"""Tables: CSV and Parquet files with a row for each sample, and named columns for inputs, targets and the client.

Numbers become float32, each column standardised by itself; text becomes one column of 0 and 1 for each of its values.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import torch
from numpy.typing import NDArray

from fedtrip.data.arrays import from_arrays
from fedtrip.data.columns import HELD_OUT, Columns, chosen, held_out, numbered, target_values
from fedtrip.data.dataset import DataSet
from fedtrip.data.memory import check_size
from fedtrip.data.normalisation import Numbers, measure
from fedtrip.data.sources import Source, share_of
from fedtrip.errors import UserError, shortened
from fedtrip.targets import TargetKind

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 100
"""Distinct values of a text column: more are names, not categories."""
KINDS = (".csv", ".parquet")


def load_table(source: Source, mean: Numbers | None, std: Numbers | None, targets: TargetKind) -> DataSet:
    """The data set of `table:FILE?target=COLUMN`, with `client=`, `inputs=` and `test=` (a share or a second file)."""
    rows = _rows(source)
    columns, frame = rows.columns, rows.frame
    x, input_names, is_number = _features(rows)
    y, class_names = _targets(rows, targets)
    clients, client_names = (None, ()) if columns.client is None else numbered(_plain(frame[columns.client]))
    is_test = rows.is_test if rows.is_test is not None else _drawn(source, rows, clients)
    means, stds = _normalisation(x[~is_test], is_number) if mean is None or std is None else (mean, std)
    try:
        dataset = from_arrays(
            x[~is_test],
            y[~is_test],
            x[is_test],
            y[is_test],
            client_train=None if clients is None else clients[~is_test],
            client_test=_test_clients(clients, is_test, rows),
            name=f"table:{source.path.stem}",
            mean=means,
            std=stds,
            targets=targets,
        )
    except UserError as error:
        raise UserError(f"{source.path}: {error}") from error
    return replace(dataset, class_names=class_names, client_names=client_names, input_names=input_names)


@dataclass(frozen=True)
class _Rows:
    """All rows, those of a second file behind those of the first."""

    path: Path
    frame: pd.DataFrame
    columns: Columns
    is_test: NDArray[np.bool_] | None
    """which of them are the second file's; None if there is one file only"""
    has_test_clients: bool


def _rows(source: Source) -> _Rows:
    import pandas as pd

    path = source.path
    frame = read_table(path)
    columns = chosen(path, list(frame.columns), source)
    used = [*columns.all, *([] if columns.client is None else [columns.client])]
    _check_complete(path, frame, used)
    test = source.options.get("test")
    if test is None or share_of(test) is not None:
        return _Rows(path, frame[used], columns, None, has_test_clients=True)
    other = Path(unquote(test)).expanduser()
    second = read_table(other)
    lacking = [name for name in columns.all if name not in second.columns]
    if lacking:
        raise UserError(f"{other}: lacks the column {', '.join(lacking)}, which {path} has")
    both = [name for name in used if name in second.columns]
    _check_complete(other, second, both)
    for name in both:
        if _is_number(frame[name]) != _is_number(second[name]):
            kinds = ["numbers" if _is_number(one[name]) else "text" for one in (frame, second)]
            raise UserError(f"{other}: column '{name}' holds {kinds[1]}, but {kinds[0]} in {path}")
    has_clients = columns.client in second.columns
    if columns.client is not None:
        if has_clients:
            _check_known_clients(other, second[columns.client], frame[columns.client])
        else:
            second = second.assign(**{columns.client: frame[columns.client].iloc[0]})  # not looked at
    joined = pd.concat([frame[used], second[used]], ignore_index=True)
    return _Rows(path, joined, columns, np.arange(len(joined)) >= len(frame), has_clients)


def read_table(path: Path) -> pd.DataFrame:
    """A CSV file with a header (UTF-8, commas), or a Parquet file."""
    if path.suffix.lower() not in KINDS:
        raise UserError(f"{path}: is neither {' nor '.join(KINDS)}; accepted: one of them")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    frame = _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
    if not len(frame):
        raise UserError(f"{path}: has no rows")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            header = next(csv.reader(stream), [])
        twice = [name for name in header if header.count(name) > 1]
        if twice:
            raise UserError(f"{path}: has two columns called '{twice[0]}'; accepted: each name once")
        # Every number is the float64 nearest to its text, and so the same bits everywhere: pandas' way from 3.1 on.
        old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
        exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
        frame: pd.DataFrame = pd.read_csv(path, encoding="utf-8-sig", low_memory=False, index_col=False, **exact)
        return frame
    except UserError:
        raise
    except (OSError, ValueError, csv.Error) as error:  # pandas' errors of parsing and decoding are ValueErrors
        raise UserError(f"{path}: cannot be read as CSV ({shortened(error)})") from error


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet files need pyarrow; install it with: pip install 'fedtrip[parquet]'"
        ) from None
    try:
        facts = pyarrow.parquet.read_metadata(path)
        size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
        check_size(path, "all columns", max(size, facts.num_rows * facts.num_columns * 8))
        frame = pd.read_parquet(path, engine="pyarrow")
    except UserError:
        raise
    except (OSError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({shortened(error)})") from error
    return frame.rename(columns=str).reset_index(drop=True)


def _check_complete(path: Path, frame: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise UserError(
                f"{path}: column '{name}' has no value in {np.count_nonzero(missing):,} of {len(frame):,} rows, first "
                f"in row {int(np.argmax(missing)) + 1}; accepted: a value in every row, or other columns by inputs="
            )


def _check_known_clients(path: Path, theirs: pd.Series[Any], known: pd.Series[Any]) -> None:
    """The test file has the clients of the training file, all of them."""
    mine, yours = set(known), set(theirs)
    if mine != yours:
        some = sorted(map(str, mine ^ yours))[0]
        raise UserError(
            f"{path}: the client '{some}' of column '{theirs.name}' is in one of the two files only; accepted: the "
            "same clients in both, or a test file without that column"
        )


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    """The values as numbers where they are such, otherwise as text."""
    if _is_number(column):
        values = column.to_numpy()
        return values.astype(np.float64) if values.dtype.kind not in "biuf" else values
    return column.astype(str).to_numpy(dtype=object)


def _is_number(column: pd.Series[Any]) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def _features(rows: _Rows) -> tuple[NDArray[np.float32], tuple[str, ...], NDArray[np.bool_]]:
    """The inputs, what they are called, and which of them are numbers of the table."""
    parts: list[NDArray[np.float32]] = []
    called: list[str] = []
    is_number: list[bool] = []
    for name in rows.columns.inputs:
        column = rows.frame[name]
        if _is_number(column):
            parts.append(_numbers(rows.path, name, column)[:, None])
            called.append(name)
            is_number.append(True)
            continue
        codes, names = numbered(_text(rows.path, name, column))
        if len(names) > MOST_VALUES:
            raise UserError(
                f"{rows.path}: column '{name}' has {len(names):,} different values, such as "
                f"'{shortened(names[0], 40)}'; accepted: at most {MOST_VALUES}, or other columns by inputs="
            )
        parts.append((codes[:, None] == np.arange(len(names))).astype(np.float32))
        called += [f"{name}={value}" for value in names]
        is_number += [False] * len(names)
    return np.concatenate(parts, axis=1), tuple(called), np.asarray(is_number)


def _numbers(path: Path, name: str, column: pd.Series[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        values = column.to_numpy(dtype=np.float64).astype(np.float32)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise UserError(
            f"{path}: column '{name}' is infinite or beyond float32 in {np.count_nonzero(wrong):,} of {len(values):,} "
            f"rows, first in row {int(np.argmax(wrong)) + 1}"
        )
    return values


def _text(path: Path, name: str, column: pd.Series[Any]) -> NDArray[Any]:
    values = column.to_numpy(dtype=object)
    wrong = next((value for value in values if not isinstance(value, (str, bool, int, float))), None)
    if wrong is not None:
        raise UserError(f"{path}: column '{name}' holds values of type {type(wrong).__name__}; accepted: numbers, text")
    return values


def _targets(rows: _Rows, kind: TargetKind) -> tuple[NDArray[Any], tuple[str, ...]]:
    if kind == "tokens":
        raise UserError(f"{rows.path}: a table has no token at each place; accepted: another task, or another source")
    names = rows.columns.targets
    if kind == "classes" and len(names) > 1:
        raise UserError(f"{rows.path}: target names {len(names)} columns; accepted: one column of classes")
    read = [target_values(f"{rows.path}: column '{name}'", _plain(rows.frame[name]), kind) for name in names]
    if len(names) == 1 and kind != "labels":
        return read[0]
    return np.stack([values for values, _ in read], axis=1), ()


def _drawn(source: Source, rows: _Rows, clients: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    text = source.options.get("test", str(HELD_OUT))
    share = share_of(text)
    if share is None or not 0 < share < 1:
        raise UserError(f"{rows.path}: test is {text}; accepted: a share above 0 and below 1, or a second file")
    is_test = held_out(np.zeros(len(rows.frame), np.int64) if clients is None else clients, share)
    if not is_test.any():
        raise UserError(
            f"{rows.path}: has too few rows to hold out a test set; accepted: two of a client, or test=FILE"
        )
    return is_test


def _test_clients(
    clients: NDArray[np.int64] | None, is_test: NDArray[np.bool_], rows: _Rows
) -> NDArray[np.int64] | None:
    """The client of each test row, if every client has one."""
    if clients is None or not rows.has_test_clients:
        return None
    return clients[is_test] if len(np.unique(clients[is_test])) == len(np.unique(clients)) else None


def _normalisation(x: NDArray[np.float32], is_number: NDArray[np.bool_]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each column of numbers; 0 and 1 of those that stand for text."""
    measured = [
        measure(torch.from_numpy(np.ascontiguousarray(x[:, [place]]))) if numeric else ((0.0,), (1.0,))
        for place, numeric in enumerate(is_number.tolist())
    ]
    return tuple(mean for (mean,), _ in measured), tuple(std for _, (std,) in measured)
