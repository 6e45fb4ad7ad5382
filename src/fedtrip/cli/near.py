"""An option or a command that is unknown: what was meant by it, with what was typed already put in its place."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import Any

from fedtrip.families import FAMILIES, METHOD
from fedtrip.synonyms import COMMANDS, OPTIONS, RULE_OPTIONS, VALUE

MOST_NAMED = 4
"""Rules that are named as those that have an option."""


def meant_instead(problem: Any, typed: Sequence[str]) -> str | None:
    """What click does not know, and what to write in its place; None if nothing has that meaning."""
    kind, context = type(problem).__name__, getattr(problem, "ctx", None)
    if kind == "NoSuchCommand" and context is not None:
        command = COMMANDS.get(problem.command_name.lower())
        known = command in context.command.commands
        return f"No such command '{problem.command_name}'; did you mean {command}?" if known else None
    if kind == "NoSuchOption" and context is not None:
        spellings = {spelling for parameter in context.command.params for spelling in parameter.opts}
        instead = meant_option(problem.option_name, typed, spellings)
        return None if instead is None else f"No such option '{problem.option_name}'; did you mean {instead}?"
    return None


def meant_option(option: str, typed: Sequence[str], known: Collection[str]) -> str | None:
    """What to write in place of an option, from the words and from the options of the rules.

    First an option of a rule that the command line names, then the words of other libraries, then any rule's.
    """
    word = option.lstrip("-").replace("_", "-").lower()
    value = _value_of(option, typed)
    can_set = "--set" in known
    return (
        (_of_named_rule(word, value, typed) if can_set else None)
        or _of_words(word, value, known)
        or (_of_any_rule(word, value, typed, known) if can_set else None)
    )


def _of_words(word: str, value: str | None, known: Collection[str]) -> str | None:
    for form in OPTIONS.get(word, ()):
        name, _, rest = form.partition(" ")
        if name in known:
            return f"{name} {rest.replace(VALUE, value or _placeholder(word))}".rstrip()
        if name == VALUE and value is not None:  # an argument, not an option
            return f"{value} alone, without {'-' * 2}{word}"
    return None


def _of_named_rule(word: str, value: str | None, typed: Sequence[str]) -> str | None:
    """An option of a rule that was typed: `--method feddyn --alpha 0.1` means feddyn's."""
    option = RULE_OPTIONS.get(word, word.replace("-", "_"))
    for field, family in FAMILIES.items():
        for name in _named(field, typed):
            if option in family.options(name) and field != "partition":
                return _setting(field, option, value, [name])
    return None


def _of_any_rule(word: str, value: str | None, typed: Sequence[str], known: Collection[str]) -> str | None:
    option = RULE_OPTIONS.get(word, word.replace("-", "_"))
    for field, family in FAMILIES.items():
        owners = [name for name in family.names() if option in family.options(name)]
        if not owners:
            continue
        if family is METHOD:
            others = f", not of {', '.join(named)}" if (named := _named(field, typed)) else ""
            return _setting(field, option, value, owners, others)
        spelling, colons = f"--{field.replace('_', '-')}", {name: family.colon_of(name) for name in owners}
        behind = next((name for name, colon in colons.items() if colon is not None and colon.option == option), None)
        if spelling in known and behind is not None:
            return f"{spelling} {behind}:{value or option.upper()}"
        if spelling in known and field != "partition":
            return f"{spelling} {owners[0]} {_setting(field, option, value, owners)}"
    return None


def _named(field: str, typed: Sequence[str]) -> list[str]:
    """The rules of a family that the command line names."""
    spellings = ["--method", "--methods"] if field == METHOD.field else [f"--{field.replace('_', '-')}"]
    names = [name for one in spellings for name in (_value_of(one, typed) or "").split(",")]
    return [name.partition(":")[0] for name in names if name]


def _setting(field: str, option: str, value: str | None, owners: Sequence[str], others: str = "") -> str:
    listed = ", ".join(owners[:MOST_NAMED]) + (", …" if len(owners) > MOST_NAMED else "")
    return f"--set {field}.{option}={value or _placeholder(option)} (an option of {listed}{others})"


def _placeholder(word: str) -> str:
    return word.replace("-", "_").upper()


def _value_of(option: str, typed: Sequence[str]) -> str | None:
    """What was typed for an option, `--option VALUE` or `--option=VALUE`, quoted for a shell; None for nothing."""
    for place, word in enumerate(typed):
        name, equals, value = word.partition("=")
        if name == option:
            following = typed[place + 1] if place + 1 < len(typed) else "-"
            found = value if equals else following
            is_number = found.lstrip("-").replace(".", "", 1).isdigit()
            return shlex.quote(found) if found and (is_number or not found.startswith("-")) else None
    return None
