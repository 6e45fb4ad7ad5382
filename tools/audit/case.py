"""What a case of the audit is: a fault, where it was found, and the two rules that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedtrip.methods.interface import Method

Score = Literal["global", "personal", "best round", "best rounds of clients"]
"""What is compared: the global model's test accuracy, or the mean of the clients' own; or, where the fault is in what
is reported of one and the same run, the best round, for all or for each client."""


@dataclass(frozen=True)
class Source:
    """Where a fault was read."""

    repository: str
    files: str
    version: str
    """the commit as it was read, or the release"""
    since: str = ""
    """what is known of it since"""


@dataclass(frozen=True)
class Case:
    """One fault, and the runs that show what it does."""

    name: str
    title: str
    found: tuple[Source, ...]
    wrong: str
    right: Method
    faulty: Method
    score: Score = "global"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """fields of the experiment that differ from those of all other cases"""
    faulty_settings: Mapping[str, Any] = field(default_factory=dict)
    """those that belong to the fault"""
    network: str = ""
    """the name of a module of `tools.audit.networks` in place of the MLP"""
    same_as: Method | None = None
    """the rule that it is to the bit with the fault"""


FEDDISCO = Source("MediaBrain-SJTU/FedDisco", "`algorithms/fedavg.py`", "48288a1")
PFLLIB = "TsingZ0/PFLlib"
