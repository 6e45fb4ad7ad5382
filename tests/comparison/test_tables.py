"""A comparison's rows as Markdown, CSV and JSON: the same numbers everywhere."""

import csv
import io
import json

import pytest

from fedtrip.comparison.tables import as_csv, as_markdown, as_records, columns, note
from fedtrip.comparison.variants import Row
from fedtrip.statistics import Ratio, estimate
from fedtrip.tasks.interface import ACCURACY


def row(**changes):
    fields = {
        "variant": "fedtrip",
        "method": "fedtrip",
        "trials": 3,
        "target": 0.9,
        "rounds": estimate([10.0, 12.0, 14.0]),
        "censored": 0,
        "speedup": Ratio(1.25, 1.1, 1.42, ""),
        "goal": ACCURACY,
        "final_score": estimate([0.95, 0.96, 0.97]),
        "gflops": estimate([1.0, 2.0, 3.0]),
        "megabytes": estimate([4.0, 5.0, 6.0]),
        "gmacs": estimate([7.0, 8.0, 9.0]),
        "client_megabytes": 0.25,
        "device_seconds": None,
    }
    return Row(**{**fields, **changes})


def on_terminal(rows):
    return [column for column in columns(rows) if column.importance]


def header(rows):
    return [column.title for column in on_terminal(rows)]


def cells(one, costs_spread=True):
    return [column.cell(one, brief=not costs_spread) for column in on_terminal([one])]


def test_what_people_see():
    assert header([row()]) == [
        "variant", "rounds to 90%", "reached", "speed-up [95 %]", "final acc. %", "GFLOPs", "MB"
    ]  # fmt: skip
    assert cells(row()) == [
        "fedtrip", "12.0±2.0", "3/3", "1.25× [1.10, 1.42]", "96.00±1.00", "2.000±1.000", "5.00±1.00"
    ]  # fmt: skip
    assert cells(row(), costs_spread=False)[-2:] == ["2.000", "5.00"]


def test_runs_that_never_got_there_are_marked_and_counted():
    shown = cells(row(censored=1, speedup=Ratio(0.8, 0.7, 0.9, "<")))
    assert shown[1:4] == [">12.0±2.0", "2/3", "<0.80× [0.70, 0.90]"]
    assert shown[5:] == [">2.000±1.000", ">5.00±1.00"]


def test_one_trial_has_neither_deviation_nor_interval():
    one = row(trials=1, rounds=estimate([10.0]), final_score=estimate([0.95]), speedup=Ratio(1.5, None, None, ""))
    assert cells(one)[1:5] == ["10.0", "1/1", "1.50×", "95.00"]


def test_without_a_target_fedavg_or_declared_flops():
    bare = cells(row(target=None, censored=3, speedup=None, gflops=None))
    assert bare[1:4] == ["no target", "–", "–"]
    assert bare[5:] == ["not declared", "5.00±1.00"]
    assert header([row(target=None)])[1] == "rounds to target"
    assert header([row(), row(target=0.8)])[1] == "rounds to target"


def test_csv_and_json_hold_the_same_numbers():
    rows = [row(), row(variant="own, \"quoted\"", speedup=None, gflops=None)]  # fmt: skip
    records = json.loads(json.dumps(as_records(rows)))
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert (
        [line["variant"] for line in read] == [record["variant"] for record in records] == ["fedtrip", rows[1].variant]
    )
    for line, record in zip(read, records, strict=True):
        for name in ("rounds", "final_accuracy", "gflops", "megabytes", "gmacs"):
            expected = record[name]["mean"] if record[name] else None
            assert (float(line[f"{name}_mean"]) if line[f"{name}_mean"] else None) == expected
        assert (float(line["speedup_low"]) if record["speedup"] else line["speedup_low"]) == (
            record["speedup"]["low"] if record["speedup"] else ""
        )
    assert records[0]["rounds"]["values"] == [10.0, 12.0, 14.0]


def test_markdown_is_a_table():
    lines = as_markdown([row(), row(variant="fedavg", speedup=None)], "digits, mlp").splitlines()
    assert lines[0] == "# digits, mlp"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert len({line.count("|") for line in table}) == 1


def test_as_csv_needs_a_row():
    with pytest.raises(IndexError):
        as_csv([])


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([row()], {"±", "95 % interval", "GFLOPs"}),
        ([row(censored=1, speedup=Ratio(0.8, 0.7, 0.9, "<"))], {"±", "95 % interval", "GFLOPs", "'>'", "'<'"}),
        ([row(censored=1, speedup=Ratio(0.8, 0.7, 0.9, ">"))], {"±", "95 % interval", "GFLOPs", "'>'"}),
        ([row(censored=1, speedup=Ratio(0.8, 0.7, 0.9, "?"))], {"±", "95 % interval", "GFLOPs", "'>'", "'?'"}),
        (
            [row(censored=1, speedup=Ratio(0.8, 0.7, 0.9, "", 1, 2))],
            {"±", "95 % interval", "GFLOPs", "'>'", "(2 of 3)"},
        ),
        ([row(trials=1, rounds=estimate([9.0]), speedup=Ratio(1.5, None, None, ""), final_score=estimate([0.9]),
              gflops=None, megabytes=estimate([1.0]), gmacs=estimate([1.0]))], set()),
        ([row(target=None, speedup=None)], {"±", "GFLOPs"}),
    ],
)  # fmt: skip
def test_the_note_names_only_what_is_in_the_table(rows, named):
    told = note(rows, on_terminal(rows))
    every = {"±", "95 % interval", "GFLOPs", "'>'", "'<'", "'?'", "(2 of 3)"}
    assert {mark for mark in every if mark in told} == named
    assert ("Speed-up" in told) == any(one.speedup is not None for one in rows)
    assert ("Rounds to target" in told) == any(one.target is not None for one in rows)
    assert told in as_markdown(rows, "a title")
