"""The pages that quote docs/evidence/ are what `python -m tools.evidence` writes, and what they say in words is so."""

from __future__ import annotations

import re

import pytest
from tools import evidence_page
from tools.evidence import BUDGET, SETTINGS, TRIALS, is_personal

from fedtrip.families import METHOD

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
    for path, name, content in evidence_page.PLACES:
        page = path.read_text(encoding="utf-8")
        assert evidence_page.between(page, name, content()) == page


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


def test_every_method_was_tuned_with_the_same_budget() -> None:
    stored = evidence_page.tuned()
    assert set(stored["chosen"]) == {name for name in ALL if not is_personal(name)}
    assert {one["spent"] for one in stored["chosen"].values()} == {stored["spent"]} == {BUDGET}
    assert not set(stored["seeds"]) & set(stored["fresh_seeds"])
    assert len(stored["fresh_seeds"]) == TRIALS


def test_what_choosing_says_of_tuned_methods_is_so() -> None:
    rows = {row["variant"]: row for row in evidence_page.tuned_rows()}
    said = evidence_page.verdicts(list(rows.values()))
    page = " ".join(evidence_page.CHOOSING.read_text(encoding="utf-8").split())
    faster = sorted(name for name, way in said.items() if way == "faster")
    assert f"told apart from a tuned FedAvg on the better side: {', '.join(f'`{name}`' for name in faster)}." in page
    assert said["fedtrip-auto"] == "not told apart"
    assert "slower" not in said.values() or "on the worse side: none" not in page
    before = {row["variant"]: row for row in evidence_page.tuned()["verdict"]["rows"]}
    gains = evidence_page.tuned()["verdict"]["gain"]
    assert all(gain["low"] > 1 for gain in gains.values() if gain and gain["low"])
    assert before["scaffold"]["censored"] == TRIALS
