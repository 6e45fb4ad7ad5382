"""The pages that quote docs/evidence/ are what `python -m tools.evidence` writes, and what they say in words is so."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tools import evidence_page
from tools.evidence import SETTINGS, TRIALS, is_personal

from fedtrip.comparison.tables import columns, interval
from fedtrip.comparison.tuning_page import in_a_line
from fedtrip.comparison.variants import Row
from fedtrip.families import METHOD
from fedtrip.statistics import Estimate, Ratio
from fedtrip.tasks.interface import ACCURACY

ALL = METHOD.names()


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_method_was_measured_ten_times(setting: str) -> None:
    whole, personal = (evidence_page.stored(setting, part) for part in ("global", "personal"))
    assert {row["variant"] for row in whole} == {name for name in ALL if not is_personal(name)}
    assert {row["variant"] for row in personal} == {"fedavg", *filter(is_personal, ALL)}
    assert {row["trials"] for row in (*whole, *personal)} == {TRIALS}


def test_the_pages_are_written_from_what_is_stored() -> None:
    """`python -m tools.evidence --pages` writes them again."""
    assert evidence_page.page() == evidence_page.PAGE.read_text(encoding="utf-8")
    for path, content in (
        (evidence_page.CHOOSING, evidence_page.summary()),
        (evidence_page.README, evidence_page.readme_table()),
    ):
        page = path.read_text(encoding="utf-8")
        assert evidence_page.between(page, "evidence", content) == page


def faster(setting: str) -> set[str]:
    return {name for name, way in evidence_page.verdicts(evidence_page.stored(setting)).items() if way == "faster"}


def slower(setting: str) -> set[str]:
    return {name for name, way in evidence_page.verdicts(evidence_page.stored(setting)).items() if way == "slower"}


def test_what_choosing_says_of_the_global_models_is_so() -> None:
    assert set.intersection(*map(faster, SETTINGS)) == {"fedtrip-auto"}
    assert {"feddyn", "feddc", "fedlesam-d", "fedacg", "fedexp"} <= faster("dirichlet-0.1")
    assert {"feddyn", "feddc", "fedlesam-d"} <= slower("quantity")
    plain = {"scaffold", "mimelite", "fedcm", "fedsam", "mofedsam", "fedlesam", "fedlesam-s"}
    for setting in SETTINGS:
        assert plain <= slower(setting)
    assert all(METHOD.find(name).momentum == 0 for name in plain)


def test_what_choosing_says_of_the_clients_own_models_is_so() -> None:
    def served(setting: str, whose: str) -> dict[str, float]:
        rows = evidence_page.stored(setting, "personal")
        return {row["variant"]: row[f"clients_{whose}_mean"]["mean"] for row in rows if row[f"clients_{whose}_mean"]}

    own, whole = served("dirichlet-0.1", "personal"), served("dirichlet-0.1", "global")["fedavg"]
    assert set(sorted(own, key=lambda name: own[name])[-2:]) == {"ditto", "fedrep"}
    assert own["local"] > whole
    assert max(served("quantity", "personal").values()) < served("quantity", "global")["fedavg"] - 0.05


def test_a_bound_says_nothing_on_its_open_side() -> None:
    def row(name: str, bound: str, mean: float) -> dict[str, object]:
        ratio = {"mean": mean, "low": mean, "high": mean, "bound": bound, "left_out": 0, "pairs": 9, "p": 1e-6}
        return {"variant": name, "speedup": ratio}

    found = evidence_page.verdicts(
        [row("a", "<", 1.5), row("b", "<", 0.5), row("c", ">", 1.5), row("d", ">", 0.5), row("e", "?", 2.0)]
    )
    assert found == {
        "a": "not told apart", "b": "slower", "c": "faster", "d": "not told apart", "e": "not told apart",
    }  # fmt: skip


def test_the_readme_counts_the_methods_and_the_verdicts_right() -> None:
    readme = evidence_page.README.read_text(encoding="utf-8")
    assert f"[{len(ALL)} methods](docs/methods.md)" in readme
    page = (evidence_page.ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    rows = page.split("## The paper's claims")[1].split("\n\n")[1].splitlines()[2:]
    verdicts = [re.split(r"(?<!\\)\|", row)[5].split(":")[0].strip() for row in rows]
    counted = {word: verdicts.count(word) for word in ("reproduced", "partly", "not", "open")}
    told = "of {} claims {} are reproduced, {} partly, {} not, and {} is open".format(len(rows), *counted.values())
    assert told in " ".join(readme.split())
    mean = next(row for row in rows if "fewer rounds than FedAvg, mean over cases" in row)
    assert "−44.02 %" in mean
    assert "−14.5 %" in mean
    emnist = next(row for row in rows if "CNN EMNIST47" in row and row.startswith("| FedTrip against FedAvg"))
    assert "1.00× [1.00, 1.00]" in emnist


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


def tuned() -> dict[str, Any]:
    """What `fedtrip tune` stored."""
    found: dict[str, Any] = json.loads(
        (evidence_page.ROOT / "docs/evidence/digits-tuned/tuning.json").read_text(encoding="utf-8")
    )
    return found


@pytest.mark.parametrize("name", list(tuned()["chosen"]))
def test_every_tuned_method_is_in_the_table_of_choosing(name: str) -> None:
    stored = tuned()
    cells = cells_of(stored["verdict"]["rows"])
    before, after = (f"{cells[label][1]} | {cells[label][3]}" for label in (name, f"{name} tuned"))
    gain = interval(Ratio(**stored["verdict"]["gain"][name]))
    chosen = in_a_line(stored["chosen"][name]["values"], name)
    line = f"| `{name}` | {before} | {after} | {gain} | {chosen} |"
    assert line in (evidence_page.ROOT / "docs/choosing.md").read_text(encoding="utf-8")


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
    page = (evidence_page.ROOT / "docs/evidence/digits-tuned/tuning.md").read_text(encoding="utf-8")
    assert "Every method had a budget of 2,000 rounds and spent 1,968 of them" in page
    assert stored["spent"] == 1968
