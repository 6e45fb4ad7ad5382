"""docs/robustness.md is what `python -m tools.robustness_page --pages` writes, and what it says in words is so."""

from __future__ import annotations

import pytest
from tools import robustness, robustness_page
from tools.robustness import ATTACKS, CLIENTS, PARTITIONS, RULES, SETTINGS, SHARE, experiment, key, stored

from fedtrip.families import ATTACK, COMBINE

MEASURED = [dataset for dataset in SETTINGS if robustness.is_complete(dataset)]


def test_digits_are_measured_with_every_rule_against_every_hostile_attack() -> None:
    assert "digits" in MEASURED
    assert set(SETTINGS["digits"].rules) == set(RULES) == set(COMBINE.names()) - {"private"}
    assert set(SETTINGS["digits"].attacks) == set(ATTACKS) == set(ATTACK.names()) - {"dropout", "corrupt"}
    assert SETTINGS["digits"].trials == 10


@pytest.mark.parametrize("dataset", MEASURED)
def test_every_cell_has_all_its_trials(dataset: str) -> None:
    for partition, rule, attack in robustness.cells(dataset):
        cell = stored(dataset, partition)[key(rule, attack)]
        assert set(cell) == {"final_accuracy", *(["attack_success"] if attack == "backdoor" else [])}
        for values in cell.values():
            assert len(values) == SETTINGS[dataset].trials
            assert all(0 <= value <= 1 for value in values)


def test_two_of_ten_attack() -> None:
    described = experiment("digits", "iid", "krum", "ipm", 3)
    assert len(ATTACK.make(described.attack).attackers(3, CLIENTS)) == SHARE * CLIENTS == 2
    assert described.per_round == CLIENTS


def test_the_page_is_written_from_what_is_stored() -> None:
    assert robustness_page.page() == robustness_page.PAGE.read_text(encoding="utf-8")


def test_a_cell_is_accuracy_and_paired_difference() -> None:
    table = robustness_page.Table("digits", "iid")
    base, other = (table.cell(*where)["final_accuracy"] for where in (("mean", "none"), ("krum", "alie")))
    apart = [100 * (b - a) for a, b in zip(base, other, strict=True)]
    assert table.difference("krum", "alie") == pytest.approx(sum(apart) / 10)
    low, high = table.interval("krum", "alie")
    assert low < table.difference("krum", "alie") < high
    assert f"{100 * sum(other) / 10:.1f} (" in table.text("krum", "alie")


def success(table: robustness_page.Table, rule: str) -> float:
    values = table.cell(rule, "backdoor")["attack_success"]
    return sum(values) / len(values)


def test_what_the_page_says_in_words_is_so() -> None:
    alike, some, much = (robustness_page.Table("digits", partition) for partition in PARTITIONS)
    looking = robustness_page.LOOKING
    for table in (alike, some, much):
        assert table.accuracy("mean", "signflip") < 15
    for rule in looking:
        assert not alike.is_sure(rule, "none")
        assert all(alike.difference(rule, attack) > -1.5 for attack in ATTACKS)
        assert much.is_sure(rule, "none")
        assert some.is_sure(rule, "none") == (rule in ("krum", "multikrum"))
        assert max(some.difference(rule, "none"), much.difference(rule, "none")) < 0
    assert much.accuracy("multikrum", "signflip") > much.accuracy("multikrum", "none") + 2
    for rule in looking:
        assert some.difference(rule, "ipm") < 2 * some.difference("mean", "ipm") < 0
    assert all(success(alike, rule) > 0.9 for rule in ("mean", "clip", "centered"))
    assert not any(table.is_sure("mean", "backdoor") for table in (alike, some, much))
    assert all(success(table, "mean") > 0.99 for table in (alike, some, much))
    assert {rule for rule in RULES if success(much, rule) < 0.2} == {"krum", "multikrum"}
    best = {max(RULES, key=lambda rule: some.accuracy(rule, attack)) for attack in ATTACKS if attack != "none"}
    assert len(best) > 1
