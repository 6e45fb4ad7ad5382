"""The faults of the audit, in the order of its page."""

from __future__ import annotations

from collections.abc import Mapping

from tools.audit.case import Case
from tools.audit.cases_global import SERVER, STEPS
from tools.audit.cases_own import OWN_MODELS, REPORTED

SECTIONS: Mapping[str, tuple[Case, ...]] = {
    "On the server": SERVER,
    "Local steps": STEPS,
    "Personal models": OWN_MODELS,
    "What is reported": REPORTED,
}
CASES = {case.name: case for cases in SECTIONS.values() for case in cases}
