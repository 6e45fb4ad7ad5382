"""The summary says what the trials carry, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from fedtrip.report.clients import ClientView
from fedtrip.report.parts import make_parts
from fedtrip.report.words import in_words


def words(histories, clients=None):
    (part,) = make_parts(histories)
    told = in_words(part, clients)
    return told.headline, " ".join(told.sentences)


def test_a_winner_whose_interval_lies_above_one(make_runs):
    headline, rest = words({"fedtrip": make_runs("fedtrip", [8, 9, 8]), "fedavg": make_runs("fedavg", [16, 17, 17])})
    assert headline == "fedtrip needed the fewest rounds to 90%: 8.3 rounds on average."
    assert "fedavg needed 2.00× the rounds of fedtrip (paired by seed, 95 % interval 1.73 to 2.32)" in rest
    assert "these 3 trials tell the two apart" in rest


def test_no_winner_where_the_interval_holds_one(make_runs):
    headline, rest = words({"fedtrip": make_runs("fedtrip", [8, 12, 8]), "fedavg": make_runs("fedavg", [9, 10, 12])})
    assert headline.startswith("No clear winner: fedtrip needed the fewest rounds to 90%, 9.3 rounds on average, but")
    assert "The interval holds 1: these 3 trials do not tell the two apart." in rest


def test_equal_methods_have_no_winner(make_runs):
    headline, rest = words({"moon": make_runs("moon", [8, 9]), "fedavg": make_runs("fedavg", [8, 9])})
    assert headline.startswith("No clear winner")
    assert "fedavg needed 1.00× the rounds of moon in every trial." in rest


def test_one_trial_says_nothing_about_certainty(make_runs):
    headline, rest = words({"fedtrip": make_runs("fedtrip", [8]), "fedavg": make_runs("fedavg", [16])})
    assert headline.startswith("No clear winner")
    assert "in one trial: how sure that is cannot be said" in rest


def test_a_rival_that_never_got_there_only_gives_a_bound(make_runs):
    headline, rest = words({"fedtrip": make_runs("fedtrip", [8, 9]), "fedavg": make_runs("fedavg", [16, None])})
    assert headline == "Only fedtrip reached 90% in every trial: in 8.5 rounds on average."
    assert "fedavg needed at least" in rest
    assert "Not every trial got there: fedavg in 1 of 2 trials." in rest


def test_nobody_reached_the_target(make_runs):
    headline, rest = words({"a": make_runs("fedtrip", [None, 3]), "b": make_runs("fedavg", [None, None])})
    assert headline == "No method reached 90% in every trial."
    assert "a in 1 of 2 trials and b in 0 of 2 trials did." in rest


def test_the_runner_up_is_named_beside_fedavg_and_the_choice_of_the_winner_is_told(make_runs):
    _, rest = words(
        {
            "fedavg": make_runs("fedavg", [16, 17]),
            "fedtrip": make_runs("fedtrip", [8, 9]),
            "moon": make_runs("moon", [10, 9]),
        }
    )
    assert "fedavg needed 1.94×" in rest
    assert "moon needed 1.12×" in rest
    assert "picked out of 3 after the runs" in rest


def test_other_settings_or_seeds_are_not_paired(make_runs):
    _, rest = words({"fedtrip": make_runs("fedtrip", [8, 9], lr=0.1), "fedavg": make_runs("fedavg", [16, 17])})
    assert "fedtrip and fedavg have other settings or seeds, so they are not compared." in rest
    (part,) = make_parts({"fedtrip": make_runs("fedtrip", [8, 9]), "fedavg": make_runs("fedavg", [16])})
    assert part.rows[0].speedup is None


def test_the_methods_own_momentum_is_no_other_setting_but_a_chosen_one_is(make_runs):
    slowmo = make_runs("slowmo", [8, 9], momentum=0.0)
    (part,) = make_parts({"slowmo": slowmo, "fedavg": make_runs("fedavg", [16, 17])})
    assert part.rows[0].speedup is not None
    (part,) = make_parts({"fedprox": make_runs("fedprox", [8, 9], momentum=0.5), "fedavg": make_runs("fedavg", [9, 9])})
    assert part.rows[0].speedup is None
    both = {m: make_runs(m, [8, 9], momentum=0.0) for m in ("slowmo", "fedavg")}
    assert make_parts(both)[0].rows[0].speedup is not None


@pytest.mark.parametrize(
    ("reached", "fields", "told"),
    [
        ([8], {}, "one reached 90% in 8 rounds."),
        ([8, 9], {}, "one reached 90% in 8.5 rounds, the mean of 2 trials."),
        ([None], {}, "one did not reach 90% in 20 rounds; its final accuracy is 38.75%."),
        ([None, 3], {}, "one reached 90% in 1 of 2 trials."),
        ([8], {"target": None}, "one has a final accuracy of 95.00%; no target was set."),
    ],
)
def test_one_method_alone(make_runs, reached, fields, told):
    assert words({"one": make_runs("fedtrip", reached, **fields)})[0] == told


def test_without_a_target_final_accuracies_are_compared(make_runs):
    headline, rest = words({"a": make_runs("fedtrip", [5], target=None), "b": make_runs("fedavg", [20], target=None)})
    assert headline.startswith("a has the highest final accuracy: 95.00%; next is b with")
    assert "no speed-up" in rest


def test_runs_that_ended_early_and_the_worst_clients_are_told(make_runs):
    view = ClientView({}, {"a": {0: np.array([0.5, 0.9])}, "b": {0: np.array([0.7, 0.8])}}, {}, 2, 1)
    _, rest = words({"a": make_runs("fedtrip", [5], ended="it diverged"), "b": make_runs("fedavg", [6])}, view)
    assert "The worst-served client is at 70.0% with b, and at 50.0% with a." in rest
    assert "a, seed 0, ended early: it diverged." in rest


def test_data_models_and_partitions_make_parts_of_their_own(make_runs):
    parts = make_parts(
        {
            "a": make_runs("fedtrip", [5]),
            "b": make_runs("fedavg", [5], partition="iid"),
            "c": make_runs("fedavg", [6], lr=0.1),
        }
    )
    assert [(part.title, list(part.histories)) for part in parts] == [
        ("digits, mlp, dirichlet:0.5", ["a", "c"]),
        ("digits, mlp, iid", ["b"]),
    ]
