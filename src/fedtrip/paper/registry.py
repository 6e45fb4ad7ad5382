"""All entries by name, numbered as in the paper."""

from __future__ import annotations

from fedtrip.paper.entries import (
    fig2,
    fig4,
    fig5,
    fig6,
    fig7,
    push,
    reach,
    table4,
    table5,
    table6,
    table7,
    verdicts,
    xi,
)
from fedtrip.paper.entries.computed import TABLE2, TABLE3, TABLE8
from fedtrip.paper.entry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        TABLE2, TABLE3, table4.ENTRY, table5.ENTRY, table6.ENTRY, table7.ENTRY, TABLE8,
        fig2.ENTRY, fig4.ENTRY, fig5.ENTRY, fig6.ENTRY, fig7.ENTRY, xi.ENTRY, push.ENTRY, reach.ENTRY, verdicts.ENTRY,
    )
}  # fmt: skip
