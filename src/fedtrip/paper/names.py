"""The names of the entries, for those who must not wait for the entries themselves, which bring PyTorch."""

from __future__ import annotations

ENTRY_NAMES = (
    "table2", "table3", "table4", "table5", "table6", "table7", "table8",
    "fig2", "fig4", "fig5", "fig6", "fig7", "xi", "push", "reach", "claims",
)  # fmt: skip
"""In the order of `fedtrip.paper.registry.ENTRIES`."""
