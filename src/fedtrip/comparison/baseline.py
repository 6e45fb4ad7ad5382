"""What speed-ups are over: FedAvg, or another method or variant of the comparison."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedtrip.comparison.comparable import Setting, settings_of
from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment.names import shown_method

if TYPE_CHECKING:
    from fedtrip.comparison.variants import Variant

BASELINE = "fedavg"


def variant_settings(variants: Sequence[Variant]) -> dict[str, Setting]:
    """By label, what variants must agree in for a speed-up to mean something."""
    return settings_of(
        {variant.label: variant.experiment for variant in variants},
        {variant.label: variant.tuned for variant in variants if variant.tuned is not None},
    )


def baselines_of(variants: Sequence[Variant], baseline: str) -> list[str]:
    """The labels of the variants that a name means: a variant's label or name, or a method's.

    A method that is itself a variant means also its variants with other settings, such as the tuned one.
    """
    exactly = [variant.label for variant in variants if baseline in (variant.label, variant.name)]
    methods = {variant.label: variant.experiment.method.name for variant in variants}
    settings = variant_settings(variants)
    known = {settings[label] for label in exactly}
    of_method = [label for label, method in methods.items() if baseline in (method, shown_method(method))]
    return exactly + [label for label in of_method if settings[label] not in known]


def check_baseline(variants: Sequence[Variant], baseline: str | None) -> str:
    """The baseline by its label, FedAvg if none is named; refuses one that is not compared, and one that is not one."""
    if baseline is None:
        return BASELINE
    found = baselines_of(variants, baseline)
    if not found:
        raise unknown_name("--baseline", baseline, [variant.label for variant in variants])
    settings = variant_settings(variants)
    for one, other in itertools.combinations(found, 2):
        if settings[one] == settings[other]:
            told = f"two variants with the same settings, '{one}' and '{other}'"
            raise UserError(f"--baseline '{baseline}' is {told}; accepted: one of them")
    return found[0] if len(found) == 1 else baseline
