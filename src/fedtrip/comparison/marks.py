"""What a table marks: the best, what is not told apart from it, and the speed-ups that the trials tell from none.

All by Student's t test on pairs of one seed, at 5 %, with Holm's correction for the number of tests: of many variants
one in twenty would be marked by chance. A variant is held against the best one that has its settings and seeds. Nothing
is marked that the trials do not carry: a run that never reached the target, or pairs without any spread to judge by
have no mark. Of two trials nobody is called level with the best, because then nearly everybody would be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from fedtrip.statistics import Ratio, estimate, holm, paired_ratio, student_p

if TYPE_CHECKING:
    from fedtrip.comparison.variants import Row

SIGNIFICANT = 0.05
FEWEST_TRIALS = 3
"""From which on the best and what is not told apart from it are marked."""
Mark = Literal["", "best", "level", "told"]
"""`level`: the best is not significantly better; `told`: a speed-up that is told from none."""
SIGNS: dict[Mark, str] = {"": "", "best": "°", "level": "°", "told": "*"}
"""The marks where there are no fonts."""
Values = Mapping[str, Sequence[float]]
Test = Callable[[Sequence[float], Sequence[float]], float | None]


def best_marks(values: Values, group_of: Mapping[str, Hashable], test: Test, *, fewest: bool) -> dict[str, Mark]:
    """The best of each group of several and what is not told apart from it, by label; `values` are those of each seed.

    Who has no values cannot be the best, but is a rival.
    """
    marks: dict[str, Mark] = {}
    for group in dict.fromkeys(group_of[label] for label in values):
        rivals = [label for label, its in group_of.items() if its == group]
        members = [label for label in rivals if len(values.get(label, ())) >= FEWEST_TRIALS]
        if len(rivals) < 2 or not members:
            continue
        best = (min if fewest else max)(members, key=lambda label: math.fsum(values[label]))
        found = {label: test(values[label], values[best]) for label in members if label != best}
        judged = {label: p for label, p in found.items() if p is not None}
        marks[best] = "best"
        for label, p in zip(judged, holm(list(judged.values())), strict=True):
            if p >= SIGNIFICANT:
                marks[label] = "level"
    return marks


def p_of_rounds(rounds: Sequence[float], best: Sequence[float]) -> float | None:
    """Of the test that the logarithms of two variants' rounds have the same mean, as a speed-up's is."""
    reached = [False] * len(rounds)
    ratio = paired_ratio(rounds, best, reached, reached)
    return None if ratio is None else ratio.p


def p_of_scores(scores: Sequence[float], best: Sequence[float]) -> float | None:
    """Of the test that two variants' scores have the same mean."""
    differences = estimate([one - other for one, other in zip(scores, best, strict=True)])
    assert differences.std is not None
    return student_p(differences.mean, differences.std / math.sqrt(len(scores)), len(scores) - 1)


def corrected(ratios: Mapping[str, Ratio | None]) -> dict[str, float]:
    """The p-values of some speed-ups after Holm's correction for their number, by label."""
    judged = {label: ratio.p for label, ratio in ratios.items() if ratio is not None and ratio.p is not None}
    return dict(zip(judged, holm(list(judged.values())), strict=True))


def with_marks(rows: Sequence[Row], group_of: Mapping[str, Hashable]) -> list[Row]:
    """The rows with what the tests say; those of one group have the same settings and seeds."""
    goals = {row.goal for row in rows}
    rounds = {row.variant: row.rounds.values for row in rows if row.target is not None and not row.censored}
    scores = {row.variant: row.final_score.values for row in rows if row.final_score is not None}
    fewest = best_marks(rounds, group_of, p_of_rounds, fewest=True)
    best = best_marks(scores, group_of, p_of_scores, fewest=not goals.pop().higher_is_better) if len(goals) == 1 else {}
    p = corrected({row.variant: row.speedup for row in rows})
    return [
        replace(
            row,
            speedup_p=p.get(row.variant),
            rounds_mark=fewest.get(row.variant, ""),
            score_mark=best.get(row.variant, ""),
        )
        for row in rows
    ]


def mark_of_speedup(row: Row) -> Mark:
    """Whether a speed-up is told from none; a bound only on its own side, where the truth is still further from 1."""
    if row.speedup is None or row.speedup_p is None or row.speedup_p >= SIGNIFICANT:
        return ""
    on_its_side = {"": True, ">": row.speedup.mean > 1, "<": row.speedup.mean < 1, "?": False}
    return "told" if on_its_side[row.speedup.bound] else ""


def rule_in_words(marks: Sequence[Mark], best: str, told: str) -> str:
    """How marked cells are to be read, as far as there are any; `best` and `told` say what a mark looks like."""
    sentences = []
    if any(mark in ("best", "level") for mark in marks):
        sentences.append(f"{best} among variants with the same settings and seeds")
    if "told" in marks:
        sentences.append(f"{told} told from 1")
    if not sentences:
        return ""
    return f"{'; '.join(sentences)} (Student's t test on pairs of a seed, 5 %, Holm's correction for all tests)."
