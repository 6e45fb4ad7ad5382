"""What a table marks, by hand: paired tests, Holm's correction, and nothing that the trials do not carry."""

import math
import re

import pytest
from scipy import stats
from tests.comparison.test_compare import result
from tests.comparison.test_tables import row

from fedtrip import Experiment
from fedtrip.comparison.marks import best_marks, corrected, mark_of_speedup, p_of_rounds, p_of_scores
from fedtrip.comparison.tables import as_markdown, as_records, columns, note
from fedtrip.comparison.variants import Variant, make_variants, summarise
from fedtrip.statistics import Ratio
from fedtrip.tasks.interface import Goal


def runs(method, rounds, planned=100, finals=None, **fields):
    """Runs that reach 50 % in the given rounds, one a seed; with these final scores."""
    made = []
    for seed, reached in enumerate(rounds):
        final = 0.6 if finals is None else finals[seed]
        scores = [0.1] * (planned if reached is None else reached - 1) + [final] * (0 if reached is None else planned)
        made.append(result(method, seed, scores[:planned], rounds=planned, **fields))
    return made


def summary(of_method, **options):
    variants = [Variant(label, some[0].experiment) for label, some in of_method.items()]
    return {one.variant: one for one in summarise(variants, of_method, **options)}


# ---- the tests themselves


def test_p_of_rounds_is_the_paired_test_on_logarithms():
    one, other = [12.0, 15.0, 11.0, 17.0], [10.0, 11.0, 12.0, 13.0]
    expected = stats.ttest_rel([math.log(x) for x in one], [math.log(x) for x in other]).pvalue
    assert p_of_rounds(one, other) == pytest.approx(expected)
    assert p_of_rounds([2.0, 4.0], [1.0, 2.0]) is None, "the same ratio in every trial has no spread to judge by"
    assert p_of_rounds([2.0, 4.0], [2.0, 4.0]) == 1


def test_p_of_scores_is_the_paired_test_on_differences():
    one, other = [0.9, 0.91, 0.87], [0.92, 0.93, 0.91]
    assert p_of_scores(one, other) == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_holms_correction_keeps_together_what_single_tests_would_tell_apart():
    """p = 0.02, 0.03 and 0.04 alone are all below 5 %; corrected they are 0.06, 0.06 and 0.06."""
    values = {"best": [1.0] * 3, "a": [2.0] * 3, "b": [3.0] * 3, "c": [4.0] * 3}
    p = {2.0: 0.02, 3.0: 0.03, 4.0: 0.04}
    group = dict.fromkeys(values, 0)
    marks = best_marks(values, group, lambda one, _best: p[one[0]], fewest=True)
    assert marks == {"best": "best", "a": "level", "b": "level", "c": "level"}
    alone = best_marks({"best": [1.0] * 3, "a": [2.0] * 3}, {"best": 0, "a": 0}, lambda *_: 0.02, fewest=True)
    assert alone == {"best": "best"}


def test_of_speedups_all_are_one_family():
    ratios = {"a": Ratio(2, 1, 3, "", p=0.02), "b": Ratio(2, 1, 3, "", p=0.04), "c": None, "d": Ratio(2, 1, 3, "")}
    assert corrected(ratios) == {"a": 0.04, "b": 0.04}


@pytest.mark.parametrize(
    ("mean", "bound", "p", "mark"),
    [
        (1.5, "", 0.01, "told"), (0.5, "", 0.01, "told"), (1.5, "", 0.06, ""), (1.5, "", None, ""),
        (1.5, ">", 0.01, "told"), (0.5, ">", 0.01, ""), (0.5, "<", 0.01, "told"), (1.5, "<", 0.01, ""),
        (1.5, "?", 0.01, ""),
    ],
)  # fmt: skip
def test_a_bound_is_told_from_1_only_where_the_truth_is_further_from_it(mean, bound, p, mark):
    assert mark_of_speedup(row(speedup=Ratio(mean, 1.0, 2.0, bound), speedup_p=p)) == mark
    assert mark_of_speedup(row(speedup=None, speedup_p=p)) == ""


# ---- in a table


def test_the_fewest_rounds_and_what_is_not_told_apart():
    found = summary(
        {
            "fedtrip": runs("fedtrip", [10, 12, 9, 11]),
            "moon": runs("moon", [11, 12, 8, 12]),
            "fedavg": runs("fedavg", [30, 33, 28, 31]),
        }
    )
    assert {label: one.rounds_mark for label, one in found.items()} == {
        "fedtrip": "best", "moon": "level", "fedavg": "",
    }  # fmt: skip
    assert {label: mark_of_speedup(one) for label, one in found.items()} == {
        "fedtrip": "told", "moon": "told", "fedavg": "",
    }  # fmt: skip
    small, large = sorted(found[label].speedup.p for label in ("fedtrip", "moon"))
    assert sorted(found[label].speedup_p for label in ("fedtrip", "moon")) == [2 * small, max(2 * small, large)]


def test_the_best_score_in_either_direction():
    finals = {"fedtrip": [0.9, 0.91, 0.92], "fedavg": [0.7, 0.72, 0.71], "moon": [0.9, 0.92, 0.9]}
    made = {label: runs(label, [2, 2, 2], finals=some) for label, some in finals.items()}
    assert {label: one.score_mark for label, one in summary(made).items()} == {
        "fedtrip": "best", "fedavg": "", "moon": "level",
    }  # fmt: skip
    error = Goal("accuracy", higher_is_better=False)
    lower = {label: [type(run)(**{**vars(run), "goal": error}) for run in some] for label, some in made.items()}
    assert {label: one.score_mark for label, one in summary(lower).items()}["fedavg"] == "best"


def test_who_missed_the_target_is_never_marked_but_is_a_rival():
    found = summary({"fedtrip": runs("fedtrip", [10, 12, 11]), "fedavg": runs("fedavg", [8, None, 9])})
    assert (found["fedtrip"].rounds_mark, found["fedavg"].rounds_mark) == ("best", "")
    nobody = summary({"fedtrip": runs("fedtrip", [None, 12, 11]), "fedavg": runs("fedavg", [8, None, 9])})
    assert {one.rounds_mark for one in nobody.values()} == {""}


def test_one_trial_one_variant_and_no_target_have_no_marks():
    single = summary({"fedtrip": runs("fedtrip", [10]), "fedavg": runs("fedavg", [20])})
    alone = summary({"fedtrip": runs("fedtrip", [10, 12, 11])})
    for found in (single, alone):
        assert {(one.rounds_mark, one.score_mark, mark_of_speedup(one)) for one in found.values()} == {("", "", "")}
    open_end = summary({label: runs(label, [10, 12, 11], target=None) for label in ("fedtrip", "fedavg")})
    assert {one.rounds_mark for one in open_end.values()} == {""}
    assert {one.score_mark for one in open_end.values()} == {"best", "level"}


def test_two_trials_call_nobody_level_with_the_best():
    """Student's t of two pairs tells hardly anything apart: 9 % would be "not significantly worse" than 80 %."""
    finals = {"fedtrip": [0.8, 0.82], "local": [0.09, 0.07], "fedavg": [0.7, 0.75]}
    two = summary({label: runs("fedavg", [2, 3], finals=some) for label, some in finals.items()})
    assert {(one.rounds_mark, one.score_mark) for one in two.values()} == {("", "")}
    three = summary({label: runs("fedavg", [2, 3, 2], finals=[*some, sum(some) / 2]) for label, some in finals.items()})
    assert {label: one.score_mark for label, one in three.items()}["local"] == ""
    assert three["fedtrip"].score_mark == "best"


def test_every_setting_has_a_best_of_its_own():
    variants = make_variants(Experiment(target=0.5), ["fedprox", "fedavg"], {"lr": [0.1, 0.2]})
    rounds = {
        "fedprox lr=0.1": [10, 12, 11], "fedavg lr=0.1": [30, 41, 35],
        "fedprox lr=0.2": [9, 8, 9], "fedavg lr=0.2": [7, 6, 5],
    }  # fmt: skip
    made = {label: runs(label.split()[0], some) for label, some in rounds.items()}
    found = {one.variant: one.rounds_mark for one in summarise(variants, made)}
    assert found["fedprox lr=0.1"] == "best"
    assert found["fedavg lr=0.2"] == "best"


def test_signs_and_their_meaning_are_where_people_read():
    rows = [
        row(rounds_mark="best", speedup_p=0.01, score_mark="level"),
        row(variant="b", rounds_mark="", speedup_p=0.2),
    ]
    first, second = ({column.title: column.cell(one) for column in columns(rows)} for one in rows)
    assert first["rounds to 90%"] == "12.0±2.0°"
    assert first["speed-up [95 %]"] == "1.25× [1.10, 1.42]*"
    assert first["final acc. %"] == "96.00±1.00°"
    assert not re.search(r"[°*]", "".join(second.values()))
    told = note(rows, columns(rows))
    assert "°: the best and what is not significantly worse" in told
    assert "Holm's correction" in told
    assert "12.0±2.0°" in as_markdown(rows, "title")
    assert as_records(rows)[0]["speedup_p_holm"] == 0.01
    plain = [row(), row(variant="b")]
    assert "Holm" not in note(plain, columns(plain))
    only = [row(speedup_p=0.01)]
    assert "the best" not in note(only, columns(only))
