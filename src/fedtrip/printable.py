"""Text from files, names and other machines as it may be shown: some characters a terminal obeys instead of showing."""

from __future__ import annotations

import unicodedata

_OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, such as escape; formats, such as one that turns the text around; what is no Unicode; ends of lines."""


def printable(text: str) -> str:
    """The text with every character that would not be seen as itself written as its number; lines stay lines."""
    return text if text.isprintable() else "".join(c if c == "\n" else _shown(c) for c in text)


def one_line(text: str) -> str:
    """The same in one line, with one space where there were several."""
    return printable(" ".join(text.split()))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _OBEYED:
        return character
    return repr(character)[1:-1] if character != "\\" else character
