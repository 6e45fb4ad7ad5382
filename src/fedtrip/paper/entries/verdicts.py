"""Every claim of the paper beside ours, from the runs that are finished."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from fedtrip.paper.claims import claims
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.page import Page

NOTE = (
    "Verdict, by rule: *reproduced* if our 95 % interval holds the paper's figure (and it is said if it holds 1 as "
    "well), *partly* if it does not, but lies on the side of 1 where that is, else *not*. Ratios are paired by seed; "
    "one trial has no interval, and is not judged. Claims that are counts are *reproduced* if ours is at least the "
    "paper's share, *partly* above one half; a case counts when all its methods have been run."
)
MEANS = (
    "A mean over cases is of the cases' own means, each over all its seeds, however many these are; a case with one "
    "pair is left out and named. Its interval is over the seeds: what a seed deviates from the mean of each case that "
    "has it is added up, because clients are drawn alike in all cases; Student's t, with at most as many degrees of "
    "freedom as seeds less one."
)


def write(findings: Findings, folder: Path) -> None:
    page = Page("The paper's claims", ["claim", "paper", "from its own tables", "ours", "verdict"], notes=[NOTE, MEANS])
    for row in claims(findings.archive):
        page.rows.append([row.claim, row.paper, row.recomputed, row.ours, row.verdict])
        page.records.append(asdict(row))
    page.write(folder)


ENTRY = Entry("claims", "every claim of the paper, judged by the finished runs", write)
