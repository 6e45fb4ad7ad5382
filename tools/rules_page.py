"""Write the tables of docs/rules.md again, from the classes of the rules: `python -m tools.rules_page`.

tests/test_docs.py compares the page with them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from fedtrip.families import FAMILIES
from fedtrip.registry import Family
from fedtrip.registry.explanation import Explanation, explain_rule

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"


def rule_table(family: Family) -> str:
    """The rules of a family as a table in Markdown, the default first."""
    rows = ["| rule | what it is | formula | options |", "|---|---|---|---|"]
    for name, form in zip(family.names(), family.forms(), strict=True):
        rule = explain_rule(family, name)
        cells = (f"`{form}`", rule.title, rule.formula, _options_in_words(rule))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _options_in_words(rule: Explanation) -> str:
    shown = []
    for option in rule.options:
        default = "" if option.default is None else f", default {json.dumps(option.default)}"
        shown.append(f"`{option.name}` ({option.accepted}{default}): {option.help}")
    return "; ".join(shown) or "none"


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
