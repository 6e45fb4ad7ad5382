"""What variants are called in tables, figures and reports: by default what they are, or as the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment.names import shown_method
from fedtrip.printable import one_line

if TYPE_CHECKING:
    from fedtrip.comparison.variants import Variant


def with_labels(variants: Sequence[Variant], labels: Mapping[str, str]) -> list[Variant]:
    """The variants, some of them under other labels; `labels` maps what one is called, or its whole name, to a text."""
    known = names_of(variants)
    given: dict[int, str] = {}
    for name, label in labels.items():
        if name not in known:
            raise unknown_name("--label", name, [variant.label for variant in variants])
        given[known[name]] = checked(label, f"--label {name}")
    named = [replace(variant, label=given.get(number, variant.label)) for number, variant in enumerate(variants)]
    every = [variant.label for variant in named]
    for label in every:
        if every.count(label) > 1:
            raise UserError(f"--label gives two variants the label '{label}'; accepted: each label once")
    return named


def names_of(variants: Sequence[Variant]) -> dict[str, int]:
    """What each variant may be called, with its number: its label, its whole name, its method's if that is enough."""
    methods = [variant.experiment.method.name for variant in variants]
    alone = {
        called: number
        for number, method in enumerate(methods)
        for called in (method, shown_method(method))
        if [other for other in methods if called in (other, shown_method(other))] == [method]
    }
    whole = {variant.name: number for number, variant in enumerate(variants) if variant.name}
    return {**alone, **whole, **{variant.label: number for number, variant in enumerate(variants)}}


def read_labels(texts: Sequence[str], variants: Sequence[Variant]) -> dict[str, str]:
    """`VARIANT=TEXT` as {VARIANT: TEXT}; both may hold an equals sign, so that the variants say where one ends."""
    known = names_of(variants)
    read: dict[str, str] = {}
    for text in texts:
        found = [name for name in known if text.startswith(f"{name}=")]
        if not found:
            name, equals, _ = text.partition("=")
            if not equals:
                told = f"--label '{text}' cannot be read"
                raise UserError(f"{told}; accepted: VARIANT=TEXT, e.g. {variants[0].label}=Ours")
            raise unknown_name("--label", name, [variant.label for variant in variants])
        name = max(found, key=len)
        if any(known[name] == known[other] for other in read):
            raise UserError(f"--label {name} is given more than once; accepted: once")
        read[name] = text.removeprefix(f"{name}=")
    return read


def checked(label: object, called: str) -> str:
    """A label in one line; refuses what is no text, or nothing that can be seen."""
    if not isinstance(label, str) or not one_line(label):
        raise UserError(f"{called} is {label!r}; accepted: a text")
    return one_line(label)
