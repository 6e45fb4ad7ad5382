"""The six cases of Tables 4 and 5: rounds, and from them GFLOPs, to a target with 4 of 10 clients under Dir-0.5."""

from __future__ import annotations

from fedtrip.paper.entry import Line
from fedtrip.paper.published import published
from fedtrip.paper.settings import DATASET_TITLES, MODEL_TITLES, OURS, short, six_methods


def case_name(model: str, dataset: str) -> str:
    """The case's name in `--case`, by the data that is used here."""
    return f"{model}-{short(OURS.get(dataset, dataset))}"


def table4_lines() -> tuple[Line, ...]:
    """Every method in every case; AlexNet, of which a round takes half a minute, only until it is at its target."""
    lines: list[Line] = []
    for case in published()["table4"]["cases"]:
        model, dataset = case["model"], OURS.get(case["dataset"], case["dataset"])
        stop = {"stop_at_target": True} if model == "alexnet" else {}
        lines += six_methods(case_name(model, case["dataset"]), dataset, model, target=case["target"], **stop)
    return tuple(lines)


def case_title(model: str, dataset: str, target: float) -> str:
    """The case for people."""
    return f"{MODEL_TITLES[model]} {DATASET_TITLES[OURS.get(dataset, dataset)]} {target:.0%}"
