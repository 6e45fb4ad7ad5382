"""The runs of our study of ξ: rules, penalties and momentum reset or kept, in MNIST and FMNIST cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtrip.paper.entries.rounds_cases import case_name
from fedtrip.paper.entry import Line
from fedtrip.paper.published import published
from fedtrip.paper.settings import paper_experiment

CHOICE_SEEDS, REPORT_SEEDS = range(5), range(5, 10)
"""A rule is chosen on the first and reported on the others, so that the report is not of the luckiest."""
BASELINE = "FedAvg"
STUDY = "fedtrip.paper.study_rules"
RULES = {
    "1/gap": "fedtrip",
    "annealed": f"{STUDY}:AnnealedXi",
    "constant 1": f"{STUDY}:ConstantXi",
    "gap norm": f"{STUDY}:GapNorm",
    "1/gap norm": f"{STUDY}:InverseGapNorm",
}
"""The method behind each rule's label; its μ is the paper's unless it is given."""
KEPT = " (kept)"
"""What the label of a line ends with whose clients keep their momentum from round to round."""
HARDER: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp-fmnist-4of50": ("mlp-fmnist", {"clients": 50}),
    "mlp-fmnist-dir-0.1": ("mlp-fmnist", {"partition": "dirichlet:0.1"}),
}
"""A case like another one, but its clients take part rarely, or differ more."""
HARDER_TITLES = {"mlp-fmnist-4of50": "MLP FMNIST 75%, 4 of 50", "mlp-fmnist-dir-0.1": "MLP FMNIST 75%, Dir-0.1"}
OTHER_MUS = {"mlp-fmnist": (0.1, 0.4, 2.0), "cnn-fmnist": (0.1, 1.0, 2.0)}
"""μ beside the paper's (1.0 for the MLP, 0.4 for the CNN), in two cases."""


def study_cases() -> dict[str, tuple[str, str, float]]:
    """Case → model, data set and target: those of Table 4 on MNIST and FMNIST."""
    return {
        case_name(case["model"], case["dataset"]): (case["model"], case["dataset"], case["target"])
        for case in published()["table4"]["cases"]
        if case["dataset"] in ("mnist", "fashion-mnist")
    }


def xi_lines() -> tuple[Line, ...]:
    """Every rule and FedAvg, with the momentum reset and kept; in the harder cases reset."""
    lines = []
    for case in study_cases():
        for kept in (False, True):
            rules = {label + KEPT * kept: {"name": method} for label, method in RULES.items()}
            lines += trips_and_baseline(case, rules, BASELINE + KEPT * kept, keep_optimizer_state=kept)
    for case in HARDER:
        lines += trips_and_baseline(case, {label: {"name": method} for label, method in RULES.items()})
    return tuple(lines)


def trips_and_baseline(
    case: str, variants: Mapping[str, Mapping[str, Any]], baseline: str = BASELINE, **fields: Any
) -> list[Line]:
    """FedAvg in a case, and each variant of FedTrip: its label, and its method with its options."""
    like, harder = HARDER.get(case, (case, {}))
    model, dataset, target = study_cases()[like]
    setting = {"target": target, **harder, **fields}
    trips = [
        Line(case, label, paper_experiment(dataset, model, dict(method), **setting))
        for label, method in variants.items()
    ]
    return [Line(case, baseline, paper_experiment(dataset, model, "fedavg", **setting)), *trips]


def mu_case(case: str) -> str:
    """The name of the case in which other μ are run."""
    return f"{case}-mu"


def mu_label(rule: str, mu: float) -> str:
    return f"{rule} μ={mu}"


def mu_lines() -> tuple[Line, ...]:
    """Every rule with other μ, in cases of their own."""
    lines = []
    for case, mus in OTHER_MUS.items():
        model, dataset, target = study_cases()[case]
        lines.append(Line(mu_case(case), BASELINE, paper_experiment(dataset, model, "fedavg", target=target)))
        for mu in mus:
            for label, method in RULES.items():
                experiment = paper_experiment(dataset, model, {"name": method, "mu": mu}, target=target)
                lines.append(Line(mu_case(case), mu_label(label, mu), experiment))
    return tuple(lines)
