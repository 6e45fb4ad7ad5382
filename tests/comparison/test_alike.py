"""Which variants came out alike is said where the table is read: by their rounds, or by every score."""

import re

import pytest
from tests.comparison.test_compare import result
from tests.comparison.test_marks import runs, summary

from fedtrip.comparison.tables import as_markdown, columns, note
from fedtrip.families import PARTITION
from fedtrip.partitions.interface import may_share


def told(found):
    rows = list(found.values())
    return note(rows, columns(rows))


def curves(method, *scores, **fields):
    """One run a seed with these scores."""
    return [result(method, seed, list(some), **fields) for seed, some in enumerate(scores)]


def test_the_same_rounds_in_every_trial_are_told_with_the_baseline_first():
    """All reach 50 % in rounds 10 and 12, with other scores on the way; the baseline is the last of them."""
    found = summary(
        {
            "fedprox": runs("fedprox", [10, 12], finals=[0.7, 0.7]),
            "moon": runs("moon", [10, 12], finals=[0.8, 0.8]),
            "slowmo": runs("slowmo", [10, 13]),
            "fedavg": runs("fedavg", [10, 12], finals=[0.9, 0.9]),
        }
    )
    assert {label: (row.alike, row.like) for label, row in found.items()} == {
        "fedprox": ("rounds", "fedavg"), "moon": ("rounds", "fedavg"), "slowmo": ("", None), "fedavg": ("", None),
    }  # fmt: skip
    assert "fedprox and moon took the same rounds as fedavg in every trial." in told(found)
    assert "fedprox and moon took" in as_markdown(list(found.values()), "title")


def test_without_the_baseline_it_is_the_first():
    found = summary({label: runs(label, [4, 5], finals=[0.6, last]) for label, last in (("moon", 0.6), ("slowmo", 1))})
    assert found["slowmo"].like == "moon"
    assert "slowmo took the same rounds as moon in every trial." in told(found)


@pytest.mark.parametrize(
    ("one", "other", "fields"),
    [
        ([10], [10], {}),  # a single trial: that is chance
        ([10, None], [10, None], {}),  # a bound is not a number of rounds
        ([10, 12], [12, 10], {}),  # in another order
        ([10, 12], [10, 12], {"planned": 99}),  # other settings: not to be compared
    ],
)
def test_what_is_not_alike(one, other, fields):
    made = {
        "fedavg": runs("fedavg", one, finals=[0.6] * len(one)),
        "moon": runs("moon", other, finals=[0.7] * len(one), **fields),
    }
    for run in made["moon"][1:2]:  # where neither got there the curves would be the same
        run.records[0].scores["accuracy"] = 0.2
    assert "same" not in " ".join(re.findall(r"[^.]*in every (?:trial|round)[^.]*\.", told(summary(made))))


def test_the_same_scores_are_told_also_of_one_trial_and_without_a_target():
    some = [[0.1, 0.4, 0.6], [0.2, 0.3, 0.7]]
    for count, fields in ((2, {}), (1, {}), (2, {"target": None})):
        made = {method: curves(method, *some[:count], **fields) for method in ("fedavg", "fedprox", "moon")}
        made["moon"] = curves("moon", *([score + 0.01 for score in one] for one in some[:count]), **fields)
        found = summary(made)
        assert (found["fedprox"].alike, found["fedprox"].like) == ("curves", "fedavg")
        assert "fedprox had the same scores as fedavg in every round of every trial, so that one line" in told(found)
        assert found["moon"].alike == ("rounds" if fields == {} and count == 2 else "")


def test_a_single_score_of_a_single_trial_makes_the_difference():
    made = {method: curves(method, [0.1, 0.4, 0.6], [0.2, 0.3, 0.7]) for method in ("fedavg", "moon")}
    made["moon"] = curves("moon", [0.1, 0.4, 0.6], [0.2, 0.3, 0.71])
    assert summary(made)["moon"].alike == "rounds"


def test_no_sentence_where_nobody_is_alike():
    found = summary({"fedavg": runs("fedavg", [10, 12]), "moon": runs("moon", [9, 12])})
    assert "in every trial" not in told(found)
    assert {row.alike for row in found.values()} == {""}


# ---- by default clients may share samples


def test_partitions_that_draw_share_samples_unless_they_are_disjoint():
    sharing = {name for name in PARTITION.names() if may_share(name, "overlap")}
    assert sharing == {"dirichlet", "bins", "feature", "iid", "orthogonal"}
    assert {name for name in sharing if may_share(name, "nested")} == sharing
    assert not any(may_share(name, "disjoint") for name in PARTITION.names())


@pytest.mark.parametrize(
    ("options", "shared"), [((), True), (("--draw", "disjoint"), False), (("--partition", "shards:2"), False)]
)
def test_the_demo_says_that_clients_may_share_samples(fedtrip, here, options, shared):
    small = ("--rounds", 2, "--clients", 4, "--per-round", 2, "--samples-per-client", 20, "--target", 0.05)
    run = ("--methods", "fedavg", "--trials", 1, "--workers", 1, "-q", "--out", here / "cmp")
    ended = fedtrip("compare", *small, *run, *options)
    assert ended.code == 0, ended.err
    assert ("Clients may share samples" in " ".join(ended.out.split())) is shared
