"""The comparison in words: which method won, by how much, and how sure that is.

Nothing is said that the trials do not carry: an interval that holds 1 tells two methods apart no more than a single
trial does, and a run that never reached the target only gives a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedtrip.comparison.variants import Row, rounds_ratio
from fedtrip.report.clients import ClientView
from fedtrip.report.parts import Part
from fedtrip.tasks.interface import ACCURACY, Goal


@dataclass(frozen=True)
class Words:
    """One sentence that says what came out, and those that say how sure it is and what else there is."""

    headline: str
    sentences: list[str]


def in_words(part: Part, clients: ClientView | None) -> Words:
    """The part's result for somebody who reads nothing else."""
    if len(part.rows) == 1:
        words = Words(_alone(part.rows[0]), [])
    elif part.target is None:
        words = _by_score(part)
    else:
        words = _by_rounds(part, _target(part.goal, part.target))
    return Words(words.headline, [*words.sentences, *_clients(clients), *_ended_early(part)])


def _alone(row: Row) -> str:
    score, final = row.goal.score, _final(row)
    if row.target is None:
        return f"{row.variant} has a final {score} of {final}; no target was set."
    target = _target(row.goal, row.target)
    if row.censored == row.trials:
        return f"{row.variant} did not reach {target} in {row.rounds.mean:.0f} rounds; its final {score} is {final}."
    if row.censored:
        return f"{row.variant} reached {target} in {row.trials - row.censored} of {row.trials} trials."
    rounds = f"{_rounds(row)}" + (f", the mean of {row.trials} trials" if row.trials > 1 else "")
    return f"{row.variant} reached {target} in {rounds}."


def _final(row: Row) -> str:
    return "no finite value" if row.final_score is None else row.goal.shown(row.final_score.mean)


def _target(goal: Goal, target: float) -> str:
    """A target in a sentence: an accuracy needs no name."""
    return goal.shown_target(target) if goal == ACCURACY else f"{goal.score} {goal.shown_target(target)}"


def _by_score(part: Part) -> Words:
    goal = part.goal

    def rank(row: Row) -> float:
        mean = math.inf if row.final_score is None else row.final_score.mean
        return -mean if goal.higher_is_better and row.final_score is not None else mean

    first, second, *_ = sorted(part.rows, key=rank)
    best = "highest" if goal.higher_is_better else "lowest"
    return Words(
        f"{first.variant} has the {best} final {goal.score}: {_final(first)}; next is {second.variant} "
        f"with {_final(second)}.",
        ["The variants have no common target, so no speed-up is computed. Compare the spread of the trials below."],
    )


def _by_rounds(part: Part, target: str) -> Words:
    ranked = sorted((row for row in part.rows if not row.censored), key=lambda row: row.rounds.mean)
    missed = [row for row in part.rows if row.censored]
    reached = _listed([f"{row.variant} in {row.trials - row.censored} of {row.trials} trials" for row in missed])
    bound = "A run that never got there counts as its last round, so these rows are bounds."
    if not ranked:
        return Words(f"No method reached {target} in every trial.", [f"{reached} did. {bound}"])
    best, *others = ranked
    if not others:
        headline = f"Only {best.variant} reached {target} in every trial: in {_rounds(best)} on average."
    elif _told_apart(part, best, others[0]):
        headline = f"{best.variant} needed the fewest rounds to {target}: {_rounds(best)} on average."
    else:
        headline = (
            f"No clear winner: {best.variant} needed the fewest rounds to {target}, {_rounds(best)} on average, "
            f"but these runs do not tell it apart from {others[0].variant} with {_rounds(others[0])}."
        )
    rivals = [row for row in part.rows if row.variant in part.baselines and row is not best][:1] + others[:1]
    sentences = [_against(part, best.variant, rival) for rival in dict.fromkeys(row.variant for row in rivals)]
    if missed:
        sentences.append(f"Not every trial got there: {reached}. {bound}")
    if len(part.rows) > 2 and best.trials > 1:
        sentences.append(
            f"The first was picked out of {len(part.rows)} after the runs; the intervals are not corrected for that."
        )
    return Words(headline, [*sentences, *_costs(ranked)])


def _told_apart(part: Part, best: Row, second: Row) -> bool:
    """Whether the paired interval of the second's rounds over the first's lies above 1."""
    if not part.comparable(best.variant, second.variant):
        return False
    ratio = rounds_ratio(part.histories[second.variant], part.histories[best.variant])
    return ratio is not None and ratio.low is not None and ratio.low > 1


def _against(part: Part, best: str, rival: str) -> str:
    """How the first compares with another, and whether the trials tell the two apart."""
    if not part.comparable(best, rival):
        return f"{best} and {rival} have other settings or seeds, so they are not compared."
    ratio = rounds_ratio(part.histories[rival], part.histories[best])
    assert ratio is not None  # the best reached the target in every trial
    more = f"{'at least ' if ratio.bound else ''}{ratio.mean:.2f}× the rounds of {best}"
    if ratio.low is None or ratio.high is None:
        return f"{rival} needed {more}, in one trial: how sure that is cannot be said."
    if ratio.low == ratio.high:
        return f"{rival} needed {more} in every trial."
    told = f"{rival} needed {more} (paired by seed, 95 % interval {ratio.low:.2f} to {ratio.high:.2f})"
    trials = f"these {len(part.histories[best])} trials"
    if ratio.low > 1:
        return f"{told}: {trials} tell the two apart."
    return f"{told}. The interval holds 1: {trials} do not tell the two apart."


def _costs(ranked: list[Row]) -> list[str]:
    """Who was cheapest up to the target, among those that reached it in every trial."""
    if len(ranked) < 2:
        return []
    least = min(ranked, key=lambda row: row.megabytes.mean)
    told = f"To the target {least.variant} sent the least: {least.megabytes.mean:.3g} MB, all clients"
    counted = {row.variant: row.gflops.mean for row in ranked if row.gflops is not None}
    if counted:
        cheapest = min(counted, key=lambda label: counted[label])
        told += f"; {cheapest} computed the least: {counted[cheapest]:.3g} GFLOPs, one client"
    return [f"{told}."]


def _clients(clients: ClientView | None) -> list[str]:
    """Which method serves its worst client best."""
    if clients is None or not clients.accuracy:
        return []
    worst = {label: mean_worst(list(seeds.values())) for label, seeds in clients.accuracy.items()}
    label = max(worst, key=lambda name: worst[name])
    if len(worst) == 1:
        return [f"The worst-served client is at {worst[label]:.1%}."]
    last = min(worst, key=lambda name: worst[name])
    return [f"The worst-served client is at {worst[label]:.1%} with {label}, and at {worst[last]:.1%} with {last}."]


def mean_worst(accuracies: list[np.ndarray]) -> float:
    """The lowest accuracy of any client, averaged over the trials."""
    return float(np.mean([np.nanmin(one) for one in accuracies]))


def _ended_early(part: Part) -> list[str]:
    return [
        f"{label}, seed {run.experiment.seed}, ended early: {run.ended}."
        for label, runs in part.histories.items()
        for run in runs
        if run.ended is not None
    ]


def _rounds(row: Row) -> str:
    return f"{row.rounds.mean:.1f}".removesuffix(".0") + " rounds"


def _listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
