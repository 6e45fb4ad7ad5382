"""Every claim of the paper beside ours, from the runs that are finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fedtrip.paper.claims import NEGLIGIBLE, claims
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.page import Page
from fedtrip.paper.verdict import Verdict
from fedtrip.statistics import CONFIDENCE, holm

RULES = (
    "Verdict, by rule: *reproduced* if our 95 % interval holds the paper's figure (and it is said if it holds 1 as "
    "well), *partly* if it does not, but lies on the side of 1 where that is, else *not*. Ratios are paired by seed; "
    "one trial has no interval, and is not judged; a run that missed its target is judged as if its last round had "
    "reached it. Claims that are counts are *reproduced* if ours is at least the paper's share, *partly* above one "
    "half; a case counts when all its methods have been run, and a tie is not counted. MOON is the worst: "
    "*reproduced* if its mean final accuracy is the lowest and the 95 % interval of its difference from the next, "
    "paired by seed, lies below 0; *partly* if its mean alone is; else *not*. Rounds over μ: *reproduced* if the mean "
    "at the paper's fastest μ is below that at the smallest and that at the largest above it, *partly* if only the "
    "former. Accuracy over μ: *reproduced* if the μ with the highest mean of the runs' highest accuracies is the "
    f"paper's, else *not*. Extra operations are negligible if they are below {NEGLIGIBLE:.0%} of a client's training; "
    "the paper gives no number."
)
MEANS = (
    "A mean over cases is of the cases' own means, each over all its seeds, however many these are; a case with one "
    "pair is left out and named. Its interval is over the seeds: what a seed deviates from the mean of each case that "
    "has it is added up, because clients are drawn alike in all cases; Student's t, with at most as many degrees of "
    "freedom as seeds less one."
)


def write(findings: Findings, folder: Path) -> None:
    found = list(claims(findings.archive))
    adjusted = _adjusted(found)
    page = Page(
        "The paper's claims",
        ["claim", "paper", "from its own tables", "ours", "verdict", "p, Holm's"],
        notes=[RULES, MEANS, _survivors(found, adjusted)],
    )
    for row, p in zip(found, adjusted, strict=True):
        page.rows.append([row.claim, row.paper, row.recomputed, row.ours, row.verdict, _shown(p)])
        page.records.append({**asdict(row), "p_holm": p})
    page.write(folder)


def _adjusted(found: Sequence[Verdict]) -> list[float | None]:
    """Each claim's p-value after Holm's correction over all that have one."""
    corrected = iter(holm([row.p for row in found if row.p is not None]))
    return [None if row.p is None else next(corrected) for row in found]


def _survivors(found: Sequence[Verdict], adjusted: Sequence[float | None]) -> str:
    tested = [row for row in found if row.p is not None]
    if not tested:
        return ""
    names = [f"*{row.claim}*" for row, p in zip(found, adjusted, strict=True) if p is not None and p < 1 - CONFIDENCE]
    return (
        f"{len(tested)} claims are tested at once, so some differences would be found by chance. p is that of "
        "Student's t test, paired by seed, that there is no difference (on logarithms for ratios), after Holm's "
        f"correction over all of them; it says nothing about the paper's figure. "
        f"Below {1 - CONFIDENCE:.0%} are {len(names)}: {'; '.join(names) or 'none'}."
    )


def _shown(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


ENTRY = Entry("claims", "every claim of the paper, judged by the finished runs", write)
