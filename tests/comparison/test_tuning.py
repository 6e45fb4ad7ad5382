"""Tuning without a single run: the rungs of a budget, the judge, the draws, and a halving by hand."""

from dataclasses import replace

import pytest

from fedtrip import Choices, Experiment, Range, UserError
from fedtrip.comparison import tuning, tuning_halving, tuning_judge
from fedtrip.comparison.tuning import MethodPlan, Plan, halved, tuned_methods
from fedtrip.comparison.tuning_halving import Halving, plan_halving
from fedtrip.comparison.tuning_judge import Standing, ranked, standing
from fedtrip.comparison.tuning_space import Configuration, check_tuned, draw, space_of
from fedtrip.methods._ranges import read_range
from fedtrip.randomness import permutation, stream, uniforms
from fedtrip.rounds.record import RoundRecord
from fedtrip.tasks.interface import ACCURACY, Goal

# ---- the rungs of a budget


def test_the_rungs_of_a_budget_by_hand():
    """100 rounds, 2 trials: rungs until ⌈100/9⌉ = 12, ⌈100/3⌉ = 34 and 100, of n, ⌊n/3⌋ and ⌊n/9⌋ configurations.

    n = 18: 2·(18·12 + 6·22 + 2·66) = 2·480 = 960; n = 19: 24 more, 984; n = 20: 1008.
    """
    assert plan_halving(960, 100, 2) == Halving((18, 6, 2), (12, 34, 100), 2)
    assert plan_halving(984, 100, 2) == plan_halving(1007, 100, 2) == Halving((19, 6, 2), (12, 34, 100), 2)
    assert plan_halving(1008, 100, 2).configurations == (20, 6, 2)
    assert [plan_halving(budget, 100, 2).cost for budget in (960, 1000, 1008)] == [960, 984, 1008]
    assert list(plan_halving(960, 100, 2).costs()) == [432, 264, 264]


def test_with_less_there_are_fewer_rungs_and_the_last_one_has_a_choice():
    """959 is not enough for 18 at three rungs. Two: 2·(6·34 + 2·66) = 672, 7: 740, 8: 808, 9: 1008; one: 2·2·100."""
    assert plan_halving(959, 100, 2) == Halving((8, 2), (34, 100), 2)
    assert plan_halving(672, 100, 2) == Halving((6, 2), (34, 100), 2)
    assert plan_halving(671, 100, 2) == Halving((3,), (100,), 2)
    assert plan_halving(400, 100, 2) == Halving((2,), (100,), 2)


@pytest.mark.parametrize("budget", [399, 1, 0, -3])
def test_a_budget_for_no_rung_says_what_is_needed(budget):
    with pytest.raises(UserError) as refused:
        plan_halving(budget, 100, 2)
    assert f"budget is {budget}; accepted: at least 400 rounds for each method" in str(refused.value)


def test_a_budget_that_nobody_means_is_refused():
    with pytest.raises(UserError, match=r"budget is 1000000000000, .* accepted: at most 1000, a budget of 53304 round"):
        plan_halving(10**12, 100, 2)
    assert plan_halving(53304, 100, 2).configurations[0] == 1000
    with pytest.raises(UserError, match=r"budget is 10\.5; accepted: a whole number of rounds"):
        plan_halving(10.5, 1, 1)


def test_rungs_end_with_evaluated_rounds_and_are_not_too_short():
    assert plan_halving(10**4, 100, 1, eval_every=10).rounds == (20, 40, 100)
    assert plan_halving(10**4, 100, 1, eval_every=40).rounds == (40, 100)  # 12 and 34 both end with round 40
    assert plan_halving(10**4, 100, 1, eval_every=100).rounds == (100,)
    assert plan_halving(10**3, 27, 1).rounds == (3, 9, 27)
    assert plan_halving(10**3, 18, 1).rounds == (6, 18)  # 2 rounds say nothing
    assert plan_halving(100, 5, 1).rounds == (5,)


@pytest.mark.parametrize("rounds", [5, 18, 27, 100])
@pytest.mark.parametrize("trials", [1, 3])
def test_nothing_more_fits_into_a_budget(rounds, trials):
    smallest = 2 * rounds * trials
    for budget in range(smallest, 40 * rounds * trials, 7):
        plan = plan_halving(budget, rounds, trials)
        assert plan.cost <= budget
        more = plan.configurations[0] + 1
        counts = tuple(more // 3**rung for rung in range(len(plan.rounds)))
        assert replace(plan, configurations=counts).cost > budget
        assert plan.configurations[-1] >= 2


# ---- the judge


def records(*validation, test=0.5):
    """Rounds with these validation accuracies; None for a round that was not evaluated."""
    return [
        RoundRecord(number, {"accuracy": test}, (0,), validation={} if score is None else {"accuracy": score})
        for number, score in enumerate(validation, 1)
    ]


def test_a_standing_by_hand():
    """Target 0.6: reached in round 3 and never; the final scores are the means of all four rounds."""
    trials = [records(0.2, 0.4, 0.6, 0.8), records(0.1, 0.3, 0.5, 0.5)]
    assert tuning_judge.standing(trials, 4, 0.6, ACCURACY) == Standing(4, (3, None), (0.5, pytest.approx(0.35)), 8)
    assert tuning_judge.standing(trials, 4, 0.6, ACCURACY).rounds == (3 + 4) / 2
    assert tuning_judge.standing(trials, 4, 0.6, ACCURACY).score == pytest.approx(0.425)
    assert tuning_judge.standing(trials, 2, 0.6, ACCURACY) == Standing(2, (None, None), (pytest.approx(0.3), 0.2), 4)


def test_the_final_score_is_of_the_last_ten_evaluated_rounds():
    long = records(*[0.0, None] * 5, *[0.5, 1.0] * 5)
    assert tuning_judge.standing([long], 20, None, ACCURACY).score == 0.75
    assert tuning_judge.standing([long[:18]], 18, None, ACCURACY).score == pytest.approx((2 * 0 + 4 * 1.5) / 10)


@pytest.mark.parametrize(
    "ended",
    [
        records(0.9, 0.9),  # it ended in an earlier rung
        records(0.9, 0.9, None),  # its last round gave no model
        [*records(0.9, 0.9), RoundRecord(3, {}, (0,), validation={"accuracy": None})],
    ],
)
def test_a_trial_that_diverged_has_no_score_and_its_configuration_is_the_last(ended):
    bad, good = records(0.1, 0.1, 0.1), records(0.9, 0.9, 0.9)
    standings = {
        0: tuning_judge.standing([ended, good], 3, 0.5, ACCURACY),
        1: tuning_judge.standing([bad, bad], 3, 0.5, ACCURACY),
        2: tuning_judge.standing([ended, ended], 3, 0.5, ACCURACY),
    }
    assert [one.diverged for one in standings.values()] == [1, 0, 2]
    assert tuning_judge.ranked(standings, ACCURACY) == [1, 0, 2]


def at(until=10, reached=(None,), scores=(0.5,)):
    return Standing(until, reached, scores, until)


def test_rounds_to_the_target_come_first_then_the_score():
    standings = {
        0: at(reached=(None, 6), scores=(0.9, 0.9)),  # 8 rounds: one that never got there counts as the last
        1: at(reached=(7, 7), scores=(0.2, 0.2)),  # 7 rounds
        2: at(reached=(5, 9), scores=(0.2, 0.3)),  # 7 rounds, a better score
        3: at(reached=(7, 7), scores=(0.3, 0.2)),  # the same as 2
        4: at(reached=(None, None), scores=(0.99, 0.99)),
    }
    assert tuning_judge.ranked(standings, ACCURACY) == [2, 3, 1, 0, 4]


def test_without_a_target_the_score_decides_in_its_own_direction():
    standings = {0: at(scores=(0.5,)), 1: at(scores=(0.7,)), 2: at(scores=(0.6,))}
    assert tuning_judge.ranked(standings, ACCURACY) == [1, 2, 0]
    assert tuning_judge.ranked(standings, Goal("rmse", higher_is_better=False)) == [0, 2, 1]


def test_the_objective_is_named():
    assert "rounds to the target on the validation set" in tuning_judge.objective(ACCURACY, 0.9)
    assert "of equal ones the lower validation rmse" in tuning_judge.objective(Goal("rmse", False), 0.9)
    assert tuning_judge.objective(ACCURACY, None).startswith("validation accuracy, mean of the last 10 evaluated")


# ---- a halving by hand

SCORES = {  # number → score at the end of rung 1, 2, 3
    "a": {0: (0.10, 0.10, 0.10), 1: (0.50, 0.20, 0.90), 2: (0.40, 0.60, 0.70), 3: (0.45, 0.55, 0.80),
          4: (0.30, 0.90, 0.90), 5: (0.20, 0.90, 0.90)},
    "b": {0: (0.50, 0.50, 0.50), 1: (0.10, 0.90, 0.90), 2: (0.10, 0.90, 0.90), 3: (0.60, 0.40, 0.90),
          4: (0.10, 0.90, 0.90), 5: (0.40, 0.50, 0.60)},
}  # fmt: skip
BY_HAND = Halving((6, 3, 2), (2, 4, 8), 1)


def hand_plan():
    configurations = tuple(Configuration(number, {"lr": number / 10}) for number in range(6))
    methods = tuple(MethodPlan(name, {"lr": Range(0.001, 1.0, "log")}, configurations) for name in SCORES)
    return Plan(30, BY_HAND, (0,), (1,), ACCURACY, None, 0.2, methods)


def climb(stored=()):
    asked = []

    def evaluate(until, left):
        asked.append((until, {name: list(numbers) for name, numbers in left.items()}))
        place = BY_HAND.rounds.index(until)
        return {
            name: {number: at(until, scores=(SCORES[name][number][place],)) for number in numbers}
            for name, numbers in left.items()
        }

    return list(halved(hand_plan(), evaluate, stored)), asked


def test_a_halving_by_hand():
    """a: 1, 3, 2 go on (0.50, 0.45, 0.40), then 2, 3 (0.60, 0.55), and 3 wins (0.80) though 1, 4, 5 would have been
    better at the end. b: 3, 0, 5 go on, then 0 before 5 at equal scores, and 5 wins."""
    rungs, asked = climb()
    assert asked == [
        (2, {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1, 2, 3, 4, 5]}),
        (4, {"a": [1, 2, 3], "b": [0, 3, 5]}),
        (8, {"a": [2, 3], "b": [0, 5]}),
    ]
    tuned = tuned_methods(hand_plan(), rungs)
    assert {name: one.chosen.number for name, one in tuned.items()} == {"a": 3, "b": 5}
    assert tuned["a"].values == {"lr": 0.3}
    assert tuned["a"].defaults == {"lr": 0.0}
    ended = {name: [one.eliminated(each) for each in one.tried] for name, one in tuned.items()}
    assert ended == {"a": [1, 2, 3, None, 1, 1], "b": [3, 1, 1, 2, 1, None]}


def test_every_method_spends_the_same_rounds():
    """6·2 + 3·2 + 2·4 = 26, whoever is eliminated when."""
    rungs, _ = climb()
    tuned = tuned_methods(hand_plan(), rungs)
    assert {one.spent for one in tuned.values()} == {one.run for one in tuned.values()} == {26} == {BY_HAND.cost}


def test_rounds_that_a_diverged_trial_did_not_run_are_spent_and_told():
    rungs, _ = climb()
    short = {**rungs[0]["a"], 4: Standing(2, (None,), (None,), 1)}
    tuned = tuned_methods(hand_plan(), [{**rungs[0], "a": short}, *rungs[1:]])
    assert (tuned["a"].spent, tuned["a"].run) == (26, 25)
    assert "1 of its trials diverged: 1 of its rounds were not run, and count as spent" in tuned["a"].remarks


def test_stored_rungs_are_not_run_again():
    whole, _ = climb()
    again, asked = climb(stored=whole[:2])
    assert again == whole
    assert [until for until, _ in asked] == [8]
    assert climb(stored=whole)[1] == []


# ---- wrong variants that these tests catch


def backwards(standings, goal):
    return ranked(standings, goal)[::-1]


def by_the_best_trial(standings, _goal):
    def rank(number):
        one = standings[number]
        return (one.diverged, min(r or one.until for r in one.reached), -(one.score or 0.0), number)

    return sorted(standings, key=rank)


def by_test_scores(trials, until, target, goal):
    shown = [[replace(one, validation=one.scores if one.validation else {}) for one in trial] for trial in trials]
    return standing(shown, until, target, goal)


@pytest.mark.parametrize(
    ("place", "name", "wrong", "test"),
    [
        (tuning, "ranked", backwards, test_a_halving_by_hand),
        (
            tuning_judge,
            "ranked",
            by_the_best_trial,
            test_rounds_to_the_target_come_first_then_the_score,
        ),
        (tuning_judge, "standing", by_test_scores, test_a_standing_by_hand),
        (tuning_halving, "KEPT", 2, test_the_rungs_of_a_budget_by_hand),
        (tuning_judge, "LAST_ROUNDS", 1, test_the_final_score_is_of_the_last_ten_evaluated_rounds),
    ],
)
def test_wrong_variants_are_caught(monkeypatch, place, name, wrong, test):
    test()
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        test()


def test_rounds_to_target_are_of_the_rung_alone():
    """A run that was interrupted and went on further has more records than the rung that is judged."""
    assert tuning_judge.standing([records(0.1, 0.1, 0.1, 0.9)], 3, 0.5, ACCURACY) == tuning_judge.standing(
        [records(0.1, 0.1, 0.1)], 3, 0.5, ACCURACY
    )


# ---- what is tuned over, and the draws


def test_every_method_has_a_learning_rate_and_what_it_declares():
    base = Experiment(lr=0.02)
    assert space_of("fedavg", base, {}, {}) == {"lr": Range(0.002, 2.0, "log")}
    assert list(space_of("fedprox", base, {}, {})) == ["lr", "fedprox.mu"]
    own = {"fedprox.mu": Range(0.1, 0.2), "method.mu": Choices(1.0), "momentum": Choices(0.0, 0.9)}
    assert space_of("fedprox", base, {"method.mu": own["method.mu"], "momentum": own["momentum"]}, {}) == {
        "lr": Range(0.002, 2.0, "log"), "fedprox.mu": Choices(1.0), "momentum": Choices(0.0, 0.9),
    }  # fmt: skip
    assert space_of("fedavg", base, {"fedprox.mu": own["fedprox.mu"]}, {}) == {"lr": Range(0.002, 2.0, "log")}


def test_what_is_set_is_not_tuned():
    assert list(space_of("fedprox", Experiment(), {}, {"lr": 0.5})) == ["fedprox.mu"]
    assert list(space_of("fedprox", Experiment(), {}, {"method.mu": 0.5})) == ["lr"]
    assert list(space_of("fedprox", Experiment(), {}, {"fedtrip.mu": 0.5})) == ["lr", "fedprox.mu"]


def space():
    return {"lr": Range(0.001, 1.0, "log"), "fedprox.mu": Range(0.0, 1.0), "momentum": Choices(0.0, 0.5, 0.9)}


def test_the_defaults_are_always_the_first_configuration():
    default = {"lr": 0.01, "fedprox.mu": 0.1, "momentum": 0.9}
    for count in (2, 3, 30):
        drawn = draw("fedprox", space(), default, count, seed=5)
        assert (drawn[0].number, drawn[0].values) == (0, default)
        assert [one.number for one in drawn] == list(range(count))
        assert all(one.values != other.values for one in drawn for other in drawn if one is not other)


def test_the_draws_fill_their_ranges_evenly():
    """A Latin hypercube of 30: one of every thirtieth, on the range's own scale; each choice ten times."""
    default = {"lr": 0.01, "fedprox.mu": 0.1, "momentum": 0.9}
    drawn = draw("fedprox", space(), default, 31, seed=0)[1:]
    lrs = sorted(one.values["lr"] for one in drawn)
    for place, lr in enumerate(lrs):
        assert 10 ** (-3 + 3 * place / 30) * 0.99 < lr < 10 ** (-3 + 3 * (place + 1) / 30) * 1.01
    for place, mu in enumerate(sorted(one.values["fedprox.mu"] for one in drawn)):
        assert place / 30 - 0.01 < mu < (place + 1) / 30 + 0.01
    momenta = [one.values["momentum"] for one in drawn]
    assert {value: momenta.count(value) for value in momenta} == {0.0: 10, 0.5: 10, 0.9: 10}


def test_draws_depend_on_the_seed_and_are_the_same_learning_rates_for_every_method():
    def lrs(method, other, seed):
        return [one.values["lr"] for one in draw(method, {"lr": space()["lr"], **other}, {}, 9, seed)[1:]]

    assert lrs("fedavg", {}, 3) == lrs("fedprox", {"fedprox.mu": Range(0.0, 1.0)}, 3)
    assert lrs("fedavg", {}, 3) != lrs("fedavg", {}, 4)
    rng = stream(3, "tuning lr")
    parts, within = permutation(rng, 8), uniforms(rng, 8)
    by_hand = [10 ** (-3 + 3 * (part + u) / 8) for part, u in zip(parts, within, strict=True)]
    assert lrs("fedavg", {}, 3) == [float(f"{lr:.3g}") for lr in by_hand]


def test_choices_are_drawn_again_until_all_differ_or_there_are_too_few():
    few = {"lr": Choices(0.1, 0.2), "momentum": Choices(0.0, 0.9)}
    drawn = draw("fedavg", few, {"lr": 0.01, "momentum": 0.9}, 5, seed=0)
    assert {(one.values["lr"], one.values["momentum"]) for one in drawn} == {
        (0.01, 0.9), (0.1, 0.0), (0.1, 0.9), (0.2, 0.0), (0.2, 0.9)
    }  # fmt: skip
    assert len(draw("fedavg", few, {"lr": 0.1, "momentum": 0.9}, 4, seed=0)) == 4
    for default, count in (({"lr": 0.01, "momentum": 0.9}, 6), ({"lr": 0.1, "momentum": 0.9}, 5)):
        with pytest.raises(UserError, match=rf"fedavg has fewer configurations than the {count} .*lr over 0.1,0.2;"):
            draw("fedavg", few, default, count, seed=0)
    with pytest.raises(UserError, match="tuned: nothing"):
        draw("fedavg", {}, {}, 2, seed=0)
    with pytest.raises(UserError, match="fewer configurations than the 4"):  # three digits tell no three values apart
        draw("fedavg", {"lr": Range(0.1, 0.1001)}, {"lr": 0.01}, 4, seed=0)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0.001..1:log", Range(0.001, 1.0, "log")),
        ("1e-3..1e0:log", Range(0.001, 1.0, "log")),
        ("0..1", Range(0.0, 1.0)),
        ("-1..1:linear", Range(-1.0, 1.0)),
        ("1,2,5", Choices(1, 2, 5)),
        ("0.5", Choices(0.5)),
        ("sgd, adam", Choices("sgd", "adam")),
        ("true,false", Choices(True, False)),
    ],
)
def test_ranges_as_they_are_written(text, meant):
    assert read_range(text) == meant
    assert read_range(str(meant)) == meant


def test_values_of_a_range():
    log = Range(0.001, 1.0, "log")
    assert [log.at(u) for u in (0.0, 1 / 3, 0.5, 2 / 3, 1.0)] == [0.001, 0.01, 0.0316, 0.1, 1.0]
    assert [Range(0.0, 2.0).at(u) for u in (0.0, 0.3333333, 1.0)] == [0.0, 0.667, 2.0]
    assert Range(0.12345, 0.2).at(0.0) == 0.12345  # rounding never leaves the range
    assert [Choices("I", "II").at(u) for u in (0.0, 0.49, 0.5, 1.0)] == ["I", "I", "II", "II"]
    assert [log.is_near_an_end(value) for value in (0.001, 0.0013, 0.01, 0.8, 1.0, 2.0)] == [
        True, True, False, True, True, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lrr": Choices(1)}, "--range 'lrr' is unknown; did you mean 'lr'?"),
        ({"rounds": Choices(1)}, "--range rounds: that is not tuned; accepted: augment"),
        ({"dataset": Choices("digits")}, "--range dataset: that is not tuned"),
        ({"fedprox.mu": Range(0.0, 1.0)}, "--range fedprox.mu: method 'fedprox' is not compared; accepted: fedavg, or"),
        ({"task.score": Choices("auc")}, "--range task.score: options of 'task' are not tuned; accepted: those of"),
        ({"partition.alpha": Choices(1)}, "--range partition.alpha: a partition has its option behind the colon"),
    ],
)
def test_names_that_cannot_be_tuned(given, message):
    with pytest.raises(UserError) as refused:
        check_tuned(given, ["fedavg"])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fedprox.mu": Range(-1.0, 1.0)}, "--range fedprox.mu=-1..1:linear: method 'fedprox': option 'mu' is -1.0"),
        ({"method.nu": Range(0.0, 1.0)}, "--range fedprox.nu=0..1:linear: method 'fedprox': option 'nu' is unknown"),
        ({"lr": Choices(0.1, 0.0)}, "--range lr=0.1,0.0: lr is 0.0; accepted: greater than 0"),
        ({"batch_size": Range(5.0, 9.0)}, "accepted: a valid integer; whole numbers one by one, such as 1,2,5"),
        ({"optimizer.beta1": Choices(0.8)}, "--range optimizer.beta1=0.8: optimizer 'sgd': option 'beta1' is unknown"),
    ],
)
def test_ranges_that_hold_a_value_that_is_not_accepted(given, message):
    with pytest.raises(UserError) as refused:
        space_of("fedprox", Experiment(), given, {})
    assert message in str(refused.value)


def test_a_method_that_declares_a_range_of_nothing_is_refused(monkeypatch):
    from fedtrip.methods.fedprox import FedProx

    monkeypatch.setattr(FedProx, "ranges", {"nu": Choices(1.0)})
    with pytest.raises(UserError, match="method 'fedprox' declares a range of 'nu', which is no option of it"):
        space_of("fedprox", Experiment(), {}, {})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Range(1.0, 1.0), "range '1..1:linear' is empty"),
        (lambda: Range(0.0, float("inf")), "range '0..inf:linear' is empty"),
        (
            lambda: Range(0.0, 1.0, "log"),
            "range '0..1:log' has no logarithm at 0; accepted: numbers above 0, or linear",
        ),
        (lambda: read_range("0..1:lag"), "scale 'lag' is unknown; accepted: linear, log"),
        (lambda: read_range("a..b"), "'a..b' cannot be read; accepted: LOW..HIGH:log"),
        (lambda: read_range("1..2..3"), "'1..2..3' cannot be read"),
        (lambda: read_range("1,,2"), "'1,,2' cannot be read"),
        (lambda: read_range("0.1,0.1"), "'0.1,0.1' has a value twice"),
        (lambda: Choices(), "nothing to choose from"),
    ],
)
def test_ranges_that_are_none(make, message):
    with pytest.raises(UserError) as refused:
        make()
    assert message in str(refused.value)
