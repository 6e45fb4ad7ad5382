"""The measured tables in README and docs are what `make evidence` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedtrip.comparison.tables import columns, interval
from fedtrip.comparison.tuning_page import in_a_line
from fedtrip.comparison.variants import Row
from fedtrip.statistics import Estimate, Ratio
from fedtrip.tasks.interface import ACCURACY

ROOT = Path(__file__).parent.parent


def rows(alpha: str) -> dict[str, list[str]]:
    """Variant → its cells, as every other table shows them."""
    return cells_of(
        json.loads((ROOT / f"docs/evidence/digits-dirichlet-{alpha}/table.json").read_text(encoding="utf-8"))
    )


def cells_of(stored: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The same of rows as plain data."""
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


def tuned() -> dict[str, Any]:
    """What `fedtrip tune` stored."""
    found: dict[str, Any] = json.loads((ROOT / "docs/evidence/digits-tuned/tuning.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", list(tuned()["chosen"]))
def test_every_tuned_method_is_in_the_table_of_choosing(name: str) -> None:
    stored = tuned()
    cells = cells_of(stored["verdict"]["rows"])
    before, after = (f"{cells[label][1]} | {cells[label][3]}" for label in (name, f"{name} tuned"))
    gain = interval(Ratio(**stored["verdict"]["gain"][name]))
    chosen = in_a_line(stored["chosen"][name]["values"], name)
    line = f"| `{name}` | {before} | {after} | {gain} | {chosen} |"
    assert line in (ROOT / "docs/choosing.md").read_text(encoding="utf-8")


def test_what_choosing_says_about_tuning_is_so() -> None:
    stored = tuned()
    speedups = {row["variant"]: row["speedup"] for row in stored["verdict"]["rows"]}
    assert speedups["scaffold tuned"]["low"] < 1 < speedups["scaffold tuned"]["high"]
    assert speedups["mimelite tuned"]["high"] < 1
    assert stored["chosen"]["mimelite"]["values"]["mimelite.beta"] == 0.5
    assert stored["ranges"]["mimelite"]["mimelite.beta"].startswith("0.5,")
    assert 4.5 < stored["verdict"]["gain"]["fedavg"]["mean"] < 5
    assert (stored["budget"], stored["rungs"][0]["configurations"], len(stored["seeds"])) == (2000, 38, 2)
    assert len(stored["fresh_seeds"]) == 10
    assert {one["spent"] for one in stored["chosen"].values()} == {stored["spent"]}
    page = (ROOT / "docs/evidence/digits-tuned/tuning.md").read_text(encoding="utf-8")
    assert "Every method had a budget of 2,000 rounds and spent 1,968 of them" in page
    assert stored["spent"] == 1968
