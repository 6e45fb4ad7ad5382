"""The one kind of error that is the user's to mend: a clear line and exit code 2, never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from fedtrip.synonyms import meant


class StopRun(Exception):
    """Raised by an `on_round` that has seen enough: the run ends with this round, and its result is returned."""


class UserError(ValueError):
    """Something the user gave cannot be used; the message names the field, the value and what is accepted."""


def unknown_name(
    kind: str, value: str, accepted: Iterable[str], also: str = "", forms: Mapping[str, str] | None = None
) -> UserError:
    """An unknown name, with the nearest known one, in meaning or else in letters: `… is unknown; did you mean …`.

    `forms` says how some of the names are written in full, such as `topk:SHARE`.
    """
    known = sorted(accepted)
    near = [name] if (name := meant(kind, value, known)) else difflib.get_close_matches(value, known, n=1, cutoff=0.5)
    suggestion = f" did you mean '{(forms or {}).get(near[0], near[0])}'?" if near else ""
    written = ((forms or {}).get(name, name) for name in known)
    alternatives = ", ".join(written) + (f", or {also}" if also else "")
    return UserError(f"{kind} '{value}' is unknown;{suggestion} accepted: {alternatives}")


def shortened(text: object, longest: int = 200) -> str:
    """The text, cut if it is too long for a message: some libraries quote all the bytes they do not understand."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[:longest]}…"


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether it says that memory ran out: Python's own error, or the text of PyTorch's."""
    return isinstance(problem, MemoryError) or (
        isinstance(problem, RuntimeError) and "DefaultCPUAllocator" in str(problem)
    )
