"""How a user's own files are named: `KIND:PLACE`, for some kinds with options behind a question mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote, unquote

from fedtrip.errors import UserError, unknown_name

FORMS = {"npz": "npz:FILE", "npy": "npy:FOLDER", "idx": "idx:FOLDER", "table": "table:FILE", "hf": "hf:FOLDER"}
"""Every kind of source, and how one writes it."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "table": ("inputs", "target", "client", "test"),
    "hf": ("inputs", "target", "client", "test"),
}
"""The options of the kinds that have any: `table:FILE?target=price&client=hospital`."""


@dataclass(frozen=True)
class Source:
    """A source of the user's own, as an experiment names it."""

    kind: str
    place: str
    options: Mapping[str, str]

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.place).expanduser()

    def columns(self, option: str) -> list[str]:
        """The columns that an option names, separated by commas."""
        return [unquote(part) for part in self.options.get(option, "").split(",") if part]

    @property
    def is_hub_name(self) -> bool:
        """Whether it is the name of a data set on the Hugging Face hub, and no folder of this machine."""
        return self.kind == "hf" and not self.path.exists() and not self.place.startswith(("/", ".", "~"))

    def absolute(self) -> str:
        """The source by whole paths, so that a stored experiment finds it from anywhere."""
        if self.is_hub_name:
            return self._written(self.place, self.options)
        options = dict(self.options)
        if self.kind == "table" and "test" in options and share_of(options["test"]) is None:
            options["test"] = quote(str(Path(unquote(options["test"])).expanduser().absolute()))
        return self._written(str(self.path.absolute()), options)

    def _written(self, place: str, options: Mapping[str, str]) -> str:
        shown = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{self.kind}:{place}" + (f"?{shown}" if shown else "")


def source_of(spec: str) -> Source | None:
    """The user's own source that a data set's name stands for; None if it is another name."""
    kind, _, place = spec.partition(":")
    if kind not in FORMS:
        return None
    options: dict[str, str] = {}
    if kind in OPTIONS:
        place, _, text = place.partition("?")
        options = _options(spec, kind, text)
    if not place:
        raise UserError(f"data set '{spec}' names no place; write {FORMS[kind]}")
    return Source(kind, place, options)


def short_name(spec: str) -> str:
    """A source without the folders it lies in, for a title; what it says is not checked."""
    kind, _, rest = spec.partition(":")
    place, mark, text = rest.partition("?") if kind in OPTIONS else (rest, "", "")
    shown = place if kind == "hf" and not place.startswith("/") else PurePath(place).name
    options = [
        part if part.partition("=")[0] != "test" else f"test={PurePath(part.partition('=')[2]).name}"
        for part in text.split("&")
    ]
    return f"{kind}:{shown}{mark}{'&'.join(options)}"


def share_of(text: str) -> float | None:
    """The share that a text like 0.2 means; None if it is no number."""
    try:
        return float(text)
    except ValueError:
        return None


def _options(spec: str, kind: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, text.split("&")):
        name, equals, value = part.partition("=")
        if name not in OPTIONS[kind]:
            raise unknown_name(f"data set '{spec}': option", name, OPTIONS[kind])
        if not equals or not value:
            raise UserError(f"data set '{spec}': option '{name}' has no value; accepted: {name}=VALUE")
        if name in options:
            raise UserError(f"data set '{spec}' gives '{name}' twice; accepted: once")
        options[name] = value
    return options
