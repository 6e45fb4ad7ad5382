"""The measured tables in README and docs are what `make evidence` wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedtrip.comparison.tables import columns
from fedtrip.comparison.variants import Row
from fedtrip.statistics import Estimate, Ratio
from fedtrip.tasks.interface import ACCURACY

ROOT = Path(__file__).parent.parent


def rows(alpha: str) -> dict[str, list[str]]:
    """Variant → its cells, as every other table shows them."""
    stored = json.loads((ROOT / f"docs/evidence/digits-dirichlet-{alpha}/table.json").read_text(encoding="utf-8"))
    found = {}
    for record in stored:
        fields = {
            name: Estimate(**{**value, "values": tuple(value["values"])})
            if isinstance(value, dict) and "values" in value
            else Ratio(**value)
            if isinstance(value, dict)
            else value
            for name, value in record.items()
        }
        row = Row(goal=ACCURACY, final_score=fields.pop("final_accuracy"), **fields)
        found[record["variant"]] = [column.cell(row, brief=True) for column in columns([row])]
    return found


def line(name: str, alphas: tuple[str, ...]) -> str:
    shown = [f"{rows(alpha)[name][1]} | {rows(alpha)[name][3]}" for alpha in alphas]
    last = rows(alphas[-1])[name]
    return f"| `{name}` | {' | '.join(shown)} | {last[5]} | {last[6]} |"


@pytest.mark.parametrize("name", list(rows("0.1")))
def test_every_method_is_in_the_table_of_choosing(name: str) -> None:
    assert line(name, ("0.5", "0.1")) in (ROOT / "docs/choosing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["fedtrip-auto", "fedavg", "fedprox", "slowmo", "moon", "feddyn"])
def test_our_rules_and_the_papers_other_methods_are_in_the_readmes_table(name: str) -> None:
    assert line(name, ("0.5", "0.1")) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_the_pages_say_about_the_intervals_is_so() -> None:
    def interval(alpha: str, name: str) -> tuple[float, float]:
        stored = json.loads((ROOT / f"docs/evidence/digits-dirichlet-{alpha}/table.json").read_text(encoding="utf-8"))
        speedup = next(row["speedup"] for row in stored if row["variant"] == name)
        return speedup["low"], speedup["high"]

    others = [name for name in rows("0.5") if name != "fedavg"]
    assert [name for name in others if interval("0.5", name)[0] > 1] == ["fedtrip-auto"]
    assert [name for name in others if interval("0.1", name)[0] > 1] == ["fedtrip-auto", "slowmo", "feddyn"]
    assert interval("0.1", "feddane")[0] < 1 < interval("0.1", "feddane")[1]
    for name in ("scaffold", "mimelite"):
        assert interval("0.5", name)[1] < 1
