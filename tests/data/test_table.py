"""Tables: columns by name, text in a fixed order, a fixed test set, and everything unusable refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedtrip
from fedtrip.data import load_dataset
from fedtrip.data.columns import held_out
from fedtrip.data.sources import source_of
from fedtrip.errors import UserError

FRAME = pd.DataFrame(
    {
        "age": [30, 40, 50, 60, 70, 80],
        "town": ["Ulm", "Bonn", "Ulm", "Kiel", "Bonn", "Ulm"],
        "price": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
        "sold": ["no", "yes", "yes", "no", "yes", "no"],
        "hospital": ["b", "b", "a", "a", "b", "a"],
    }
)


@pytest.fixture(params=["csv", "parquet"])
def table(request, tmp_path: Path) -> Path:
    path = tmp_path / f"houses.{request.param}"
    save(FRAME, path)
    return path


def save(frame: pd.DataFrame, path: Path) -> str:
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return str(path)


def changed(tmp_path: Path, **columns: object) -> str:
    return save(FRAME.assign(**columns), tmp_path / "changed.csv")


def test_numbers_are_standardised_by_column_and_text_is_one_of_its_sorted_values(table: Path, tmp_path: Path) -> None:
    other = save(FRAME.iloc[[0, 3]], tmp_path / f"test{table.suffix}")
    made = load_dataset(f"table:{table}?target=price&inputs=age,town&test={other}", targets="numbers")
    # age, then Bonn, Kiel, Ulm
    assert made.x_train.tolist() == [
        [30, 0, 0, 1], [40, 1, 0, 0], [50, 0, 0, 1], [60, 0, 1, 0], [70, 1, 0, 0], [80, 0, 0, 1],
    ]  # fmt: skip
    assert made.x_test.tolist() == [[30, 0, 0, 1], [60, 0, 1, 0]]
    assert made.y_train.tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert made.mean == (55.0, 0.0, 0.0, 0.0)
    assert made.std == pytest.approx((17.078251276599330, 1.0, 1.0, 1.0), abs=1e-12)
    assert made.normalised(made.x_test)[1].tolist() == pytest.approx([5 / 17.07825127659933, 0, 1, 0])


def test_text_classes_are_numbered_in_sorted_order_and_the_numbers_are_told(table: Path, capsys) -> None:
    made = load_dataset(f"table:{table}?target=sold&inputs=age&test=0.34")
    assert made.class_names == ("no", "yes")
    everything = torch.cat([made.x_train, made.x_test])[:, 0].tolist(), torch.cat([made.y_train, made.y_test]).tolist()
    assert sorted(zip(*everything, strict=True)) == list(zip(FRAME.age, [0, 1, 1, 0, 1, 0], strict=True))
    assert len(made.x_test) == 2
    assert capsys.readouterr().err == "classes: 0 = no, 1 = yes\n"


def test_integers_are_classes_or_numbers_as_the_task_says(tmp_path: Path) -> None:
    path = changed(tmp_path, target=[3, 5, 3, 5, 3, 5])
    assert load_dataset(f"table:{path}?inputs=age&test={path}").y_train.tolist() == [0, 1, 0, 1, 0, 1]
    numbers = load_dataset(f"table:{path}?inputs=age&test={path}", targets="numbers")
    assert numbers.y_train.tolist() == [3.0, 5.0, 3.0, 5.0, 3.0, 5.0]
    assert numbers.y_train.dtype == torch.float32


def test_several_targets_are_numbers_or_labels(tmp_path: Path) -> None:
    path = changed(tmp_path, warm=[0, 1, 1, 0, 1, 0], dry=[1, 1, 0, 0, 1, 0])
    labels = load_dataset(f"table:{path}?target=warm,dry&inputs=age&test={path}", targets="labels")
    assert labels.y_train.int().tolist() == [[0, 1], [1, 1], [1, 0], [0, 0], [1, 1], [0, 0]]
    numbers = load_dataset(f"table:{path}?target=price,age&inputs=warm&test={path}", targets="numbers")
    assert numbers.y_train[1].tolist() == [2.5, 40.0]
    with pytest.raises(UserError, match=r"changed\.csv: target names 2 columns; accepted: one column of classes"):
        load_dataset(f"table:{path}?target=warm,dry&inputs=age")


def test_clients_are_numbered_in_sorted_order_and_each_has_its_test_rows(table: Path, capsys) -> None:
    made = load_dataset(f"table:{table}?target=sold&inputs=age&client=hospital&test=0.34")
    owners = {30: 1, 40: 1, 50: 0, 60: 0, 70: 1, 80: 0}
    assert [owners[int(age)] for age in made.x_train[:, 0]] == made.client_train.tolist()
    assert [owners[int(age)] for age in made.x_test[:, 0]] == made.client_test.tolist()
    assert sorted(made.client_test.tolist()) == [0, 1]
    assert "clients: 0 = a, 1 = b" in capsys.readouterr().err


def test_the_test_rows_are_always_the_same_share_of_every_client() -> None:
    owners = np.array([0] * 10 + [1] * 4 + [2])
    chosen = held_out(owners, 0.2)
    assert [int(chosen[owners == k].sum()) for k in range(3)] == [2, 1, 0]  # 2; 0.8 rounded; one row cannot be divided
    assert (chosen == held_out(owners, 0.2)).all()
    assert np.flatnonzero(held_out(np.zeros(10, np.int64), 0.3)).tolist() == TEN_ROWS


TEN_ROWS = [1, 2, 8]
"""Never to change: stored experiments name tables, not rows."""


def test_a_test_file_has_the_same_clients_or_does_not_name_them(tmp_path: Path) -> None:
    path = save(FRAME, tmp_path / "all.csv")
    spec = f"table:{path}?target=sold&inputs=age&client=hospital&test="
    without = save(FRAME.drop(columns="hospital"), tmp_path / "without.csv")
    assert load_dataset(spec + without).client_test is None
    assert load_dataset(spec + path).client_test.tolist() == [1, 1, 0, 0, 1, 0]
    other = save(FRAME.assign(hospital=["c"] * 6), tmp_path / "other.csv")
    with pytest.raises(UserError, match=r"other\.csv: the client 'a' of column 'hospital' is in one of the two"):
        load_dataset(spec + other)


@pytest.mark.parametrize(
    ("columns", "options", "targets", "told"),
    [
        ({}, "target=prize", "numbers", r"column 'prize' is unknown; did you mean 'price'\? accepted: age"),
        (
            {},
            "",
            "numbers",
            r"has no column called target or label or labels; accepted: table:…\?target=COLUMN, one of",
        ),
        ({}, "target=sold&client=house", "classes", "column 'house' is unknown"),
        ({}, "target=sold&inputs=age,sold", "classes", "column 'sold' is named twice"),
        ({}, "target=price", "classes", "'price' holds floating-point numbers; accepted: .* or task regression"),
        ({}, "target=sold", "numbers", "column 'sold' holds text; accepted: numbers, or task classification"),
        ({}, "target=sold", "tokens", "a table has no token at each place"),
        ({}, "target=sold&test=1.5", "classes", "test is 1.5; accepted: a share above 0 and below 1, or a second file"),
        ({}, "target=sold&tset=0.1", "classes", "option 'tset' is unknown; did you mean 'test'"),
        ({}, "target=sold&target=age", "classes", "gives 'target' twice"),
        ({}, "target=", "classes", "option 'target' has no value"),
        ({}, "target=sold&test=nowhere.csv", "classes", r"nowhere\.csv: there is no such file"),
        (
            {"age": [1, None, 3, None, 5, 6]},
            "target=sold",
            "classes",
            "column 'age' has no value in 2 of 6 rows, first in row 2",
        ),
        (
            {"age": [1, 2, np.inf, 4, 5, 6]},
            "target=sold",
            "classes",
            "'age' is infinite .* 1 of 6 rows, first in row 3",
        ),
        ({"age": [1, 2, 1e300, 4, 5, 6]}, "target=sold", "classes", "'age' is infinite or beyond float32"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, columns, options, targets, told) -> None:
    path = changed(tmp_path, **columns)
    with pytest.raises(UserError, match=told):
        load_dataset(f"table:{path}?{options}", targets=targets)


def test_too_many_different_texts_are_no_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(101)], "label": [0] * 101})
    path = save(frame, tmp_path / "names.csv")
    with pytest.raises(UserError, match="column 'name' has 101 different values, such as 'n0'; accepted: at most 100"):
        load_dataset(f"table:{path}")
    assert load_dataset(f"table:{save(frame.iloc[:100], tmp_path / 'fewer.csv')}").x_train.shape == (80, 100)


def test_a_column_of_numbers_is_no_column_of_classes(tmp_path: Path) -> None:
    path = save(pd.DataFrame({"a": range(442), "label": [i % 347 for i in range(442)]}), tmp_path / "t.csv")
    with pytest.raises(UserError, match=r"t\.csv: y_train would be \d+ classes for 354 samples.*task regression"):
        load_dataset(f"table:{path}")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.xls", b"", r"t\.xls: is neither \.csv nor \.parquet"),
        ("t.csv", b"", r"t\.csv: cannot be read as CSV"),
        ("t.csv", b"a,label\n", r"t\.csv: has no rows"),
        ("t.csv", b"a,a,label\n1,2,3\n", r"t\.csv: has two columns called 'a'"),
        ("t.csv", b"a,label\n\xff\xfe,1\n", r"t\.csv: cannot be read as CSV"),
        ("t.csv", b'a,label\n"1,2\n', r"t\.csv: cannot be read as CSV"),
        ("t.parquet", b"PAR1nonsense", r"t\.parquet: cannot be read as Parquet"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told):
        load_dataset(f"table:{tmp_path / name}")


def test_parquet_columns_of_lists_and_dates_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [[1], [2]], "label": [0, 1]}).to_parquet(path)
    with pytest.raises(UserError, match="column 'a' holds values of type ndarray; accepted: numbers, text"):
        load_dataset(f"table:{path}")
    pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"]), "label": [0, 1]}).to_parquet(path)
    with pytest.raises(UserError, match="column 'a' holds values of type Timestamp"):
        load_dataset(f"table:{path}")


def test_a_column_that_is_text_in_one_file_only_is_refused(tmp_path: Path) -> None:
    path, other = save(FRAME, tmp_path / "a.csv"), save(FRAME.assign(age=list("abcdef")), tmp_path / "b.csv")
    with pytest.raises(UserError, match=r"b\.csv: column 'age' holds text, but numbers in .*a\.csv"):
        load_dataset(f"table:{path}?target=sold&test={other}")
    short = save(FRAME.drop(columns="age"), tmp_path / "c.csv")
    with pytest.raises(UserError, match=r"c\.csv: lacks the column age, which .*a\.csv has"):
        load_dataset(f"table:{path}?target=sold&test={short}")


def test_a_stored_experiment_finds_both_files_from_anywhere(tmp_path: Path, monkeypatch) -> None:
    save(FRAME, tmp_path / "a b.csv")
    monkeypatch.chdir(tmp_path)
    spec = "table:a b.csv?target=sold&inputs=age&client=hospital&test=a b.csv"
    done = fedtrip.run(fedtrip.Experiment(dataset=spec, rounds=1, model="mlp"), workers=1)
    monkeypatch.chdir("/")
    again = fedtrip.run(done.experiment, workers=1)
    assert again.model_sha256 == done.model_sha256
    assert source_of(done.experiment.dataset).absolute() == done.experiment.dataset


def test_column_names_with_signs_of_the_syntax_are_quoted(tmp_path: Path) -> None:
    path = save(FRAME.rename(columns={"sold": "a&b=c,d"}), tmp_path / "t.csv")
    assert load_dataset(f"table:{path}?target=a%26b%3Dc%2Cd&inputs=age").class_names == ("no", "yes")


def test_the_command_line_refuses_with_code_2_and_leaves_nothing(tmp_path: Path) -> None:
    path = changed(tmp_path, age=[1, None, 3, 4, 5, 6])
    command = [sys.executable, "-m", "fedtrip", "run", "--dataset", f"table:{path}?target=sold", "--out", "there"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "column 'age' has no value in 1 of 6 rows" in done.stderr) == (2, True)
    assert not (tmp_path / "there").exists()
