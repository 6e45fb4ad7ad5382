"""What a rule that promises differential privacy does not go with: anything that would leave a client without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from fedtrip.combining.interface import Combine, Plan
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.families import COMBINE
from fedtrip.methods.interface import Method

if TYPE_CHECKING:
    from fedtrip.experiment.rules import Rules


def check_private_rules(experiment: Experiment, rules: Rules) -> None:
    """Refuse, by name, rules that would break the promise of a private rule of combining."""
    if rules.combine.is_private:
        _refuse(experiment, _of_selection(experiment, rules), _of_method(experiment, rules.method))


def check_private(experiment: Experiment, rules: Rules, module: nn.Module) -> None:
    """Refuse, by name, a model or a way of choosing it that would break that promise."""
    if rules.combine.is_private:
        _refuse(experiment, _of_module(module), _of_choosing(experiment))


def _refuse(experiment: Experiment, *reasons: str | None) -> None:
    for reason in filter(None, reasons):
        raise UserError(f"combine '{experiment.combine.name}' promises differential privacy, but {reason}")


def promise_of(experiment: Experiment, rounds: int, spent: float | None) -> str | None:
    """What a run of so many rounds promises its clients, in words; None if nothing, or if its rule is one's own."""
    if experiment.combine.name not in COMBINE.names() or experiment.clients is None or experiment.per_round is None:
        return None
    plan = Plan(experiment.clients - experiment.unseen_clients, experiment.per_round, experiment.rounds)
    combine: Combine = COMBINE.make(experiment.combine)
    return combine.promise(rounds, plan, spent)


def _of_selection(experiment: Experiment, rules: Rules) -> str | None:
    if rules.select.is_poisson:
        return None
    return (
        f"its ε holds only if every client takes part independently of the others, unlike with select "
        f"'{experiment.select}'; accepted: select poisson"
    )


def _of_method(experiment: Experiment, method: Method) -> str | None:
    name = experiment.method.name
    others = [vector for vector in method.means if vector != "w"]
    if others:
        return f"method '{name}' also uploads '{others[0]}', which has no noise; accepted: another method"
    if method.exchanges > 1:
        return f"method '{name}' uploads {method.exchanges} times a round; accepted: another method"
    if type(method).weights is not Method.weights:
        return f"method '{name}' has weights that follow what the clients say; accepted: another method"
    return None


def _of_module(module: nn.Module) -> str | None:
    kept = module.state_dict().keys() - {name for name, _ in module.named_parameters(remove_duplicate=False)}
    if not kept:
        return None
    return (
        f"the model's buffer '{min(kept)}' travels without noise; accepted: a model without, such as one with "
        "GroupNorm in place of BatchNorm"
    )


def _of_choosing(experiment: Experiment) -> str | None:
    if experiment.snapshot:
        return "snapshot keeps the clients' own models; accepted: no snapshot"
    if experiment.validation_at == "clients" and (experiment.patience or experiment.keep_best):
        return (
            "the round whose model is kept would follow the clients' own scores, which have no noise; accepted: "
            "validation_at server"
        )
    return None
