"""Write the tables of docs/rules.md again, from the classes of the rules: `python -m tools.rules_page`.

tests/test_docs.py compares the page with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import torch

from fedtrip.codecs.interface import Codec
from fedtrip.families import FAMILIES, UPLOAD_CODEC
from fedtrip.registry import Family
from fedtrip.registry.explanation import Explanation, explain_rule

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"


def rule_table(family: Family) -> str:
    """The rules of a family as a table in Markdown, the default first."""
    titles, more = ["rule", "what it is", "formula", "options"], FURTHER.get(family.field)
    rows = [f"| {' | '.join([*titles, *([more[0]] if more else [])])} |", "|---" * (len(titles) + bool(more)) + "|"]
    for name, form in zip(family.names(), family.forms(), strict=True):
        rule = explain_rule(family, name)
        cells = [f"`{form}`", rule.title, rule.formula, _options_in_words(rule)]
        cells += [more[1](name)] if more else []
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _options_in_words(rule: Explanation) -> str:
    shown = []
    for option in rule.options:
        default = "" if option.default is None else f", default {json.dumps(option.default)}"
        shown.append(f"`{option.name}` ({option.accepted}{default}): {option.help}")
    return "; ".join(shown) or "none"


def _costs_of_codec(name: str) -> str:
    """What client and server compute for each number, and what a client keeps."""
    colon = UPLOAD_CODEC.colon_of(name)
    codec: Codec = UPLOAD_CODEC.make(f"{name}:1" if colon is not None and colon.is_needed else name)
    upload = {"w": torch.zeros(1)}
    kept = f"{codec.kept_bytes(upload)}d bytes" if codec.keeps_error else "nothing"
    return f"{codec.client_operations(upload)} + {codec.server_operations(upload)}; {kept}"


FURTHER: dict[str, tuple[str, Callable[[str], str]]] = {
    "upload_codec": ("multiply-adds a number, client + server; kept by the client", _costs_of_codec)
}
"""A column more for the rules of these families: its title, and a rule's cell."""


def with_tables(page: str) -> str:
    """The page with the table of every family's section replaced."""
    head, *sections = page.split("\n## ")
    for number, section in enumerate(sections):
        family = FAMILIES[section.partition("\n")[0]]
        sections[number] = re.sub(
            r"(?:^\|.*\n)+", lambda _, of=family: rule_table(of) + "\n", section, flags=re.MULTILINE
        )
    return "\n## ".join([head, *sections])


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
