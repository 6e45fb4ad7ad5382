"""The rules that an experiment names, made and checked: each alone, and whether they go together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fedtrip.attacks.interface import Attack
from fedtrip.augmentations.interface import Augment
from fedtrip.codecs.interface import Codec
from fedtrip.combining.interface import Combine
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.privacy import check_private_rules
from fedtrip.families import (
    ATTACK,
    AUGMENT,
    COMBINE,
    LR_SCHEDULE,
    METHOD,
    OPTIMIZER,
    SELECT,
    SERVER_OPTIMIZER,
    TASK,
    UPLOAD_CODEC,
)
from fedtrip.methods.interface import Method, make_method
from fedtrip.optimizers._clip import Clip, read_clip
from fedtrip.optimizers.interface import Optimizer
from fedtrip.registry import Choice
from fedtrip.schedules.interface import Schedule
from fedtrip.selection.interface import Select
from fedtrip.server_optimizers.interface import ServerOptimizer
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import Task


@dataclass(frozen=True)
class Rules:
    """One rule of each family."""

    method: Method
    task: Task
    augment: Augment
    optimizer: Optimizer
    lr_schedule: Schedule
    clip: Clip | None
    select: Select
    upload_codec: Codec
    combine: Combine
    server_optimizer: ServerOptimizer
    attack: Attack

    def choices(self) -> dict[str, Choice]:
        """How a complete experiment names them, every option written out; `momentum` has a field of its own.

        Of a built-in task only those options that are not at their defaults, which mean that there is nothing special:
        so runs of versions that did not have them stay the same experiments.
        """
        families = (
            METHOD, TASK, AUGMENT, OPTIMIZER, LR_SCHEDULE, SELECT, UPLOAD_CODEC, COMBINE, SERVER_OPTIMIZER, ATTACK,
        )  # fmt: skip
        named = {family.field: family.complete(getattr(self, family.field)) for family in families}
        options = {name: value for name, value in named["optimizer"].options.items() if name != "momentum"}
        named["optimizer"] = dataclasses.replace(named["optimizer"], options=options)
        if named["task"].name in TASK.names():
            usual = {one.name: one.default for one in dataclasses.fields(self.task)}
            special = {name: value for name, value in named["task"].options.items() if value != usual[name]}
            named["task"] = dataclasses.replace(named["task"], options=special)
        return named

    @property
    def momentum(self) -> float:
        """The local optimizer's momentum; 0 for one that has none."""
        return float(getattr(self.optimizer, "momentum", 0.0))


def make_rules(experiment: Experiment) -> Rules:
    """The rules of an experiment; raises `UserError` where one is wrong, or two do not go together."""
    named = experiment.method
    method = make_method(named.name, named.options, model=experiment.model, dataset=experiment.dataset)
    rules = Rules(
        method=method,
        task=TASK.make(experiment.task),
        augment=AUGMENT.make(experiment.augment),
        optimizer=_optimizer(experiment, method),
        lr_schedule=LR_SCHEDULE.make(experiment.lr_schedule),
        clip=None if experiment.clip is None else read_clip(experiment.clip),
        select=SELECT.make(_select(experiment)),
        upload_codec=UPLOAD_CODEC.make(experiment.upload_codec),
        combine=COMBINE.make(experiment.combine),
        server_optimizer=SERVER_OPTIMIZER.make(experiment.server_optimizer),
        attack=ATTACK.make(experiment.attack),
    )
    _check_together(rules, experiment)
    return rules


def _select(experiment: Experiment) -> Choice:
    """Who takes part; if nothing was said and the rule of combining is private, as its ε demands."""
    if "select" not in experiment.model_fields_set and COMBINE.make(experiment.combine).is_private:
        return Choice("poisson")
    return experiment.select


def _optimizer(experiment: Experiment, method: Method) -> Optimizer:
    """The optimizer; its momentum, if it has one, is the experiment's, or the method's default."""
    choice = experiment.optimizer
    takes_momentum = any(field.name == "momentum" for field in dataclasses.fields(OPTIMIZER.find(choice.name)))  # type: ignore[arg-type]
    if not takes_momentum:
        if experiment.momentum:
            raise UserError(
                f"momentum is {experiment.momentum}, which optimizer '{choice}' does not have; accepted: leave it out"
            )
        return OPTIMIZER.make(choice)  # type: ignore[no-any-return]
    own = choice.options.get("momentum", experiment.momentum)
    if experiment.momentum is not None and own != experiment.momentum:
        raise UserError(f"momentum is {experiment.momentum}, but optimizer '{choice}'; accepted: one of the two")
    momentum = method.momentum if experiment.momentum is None else experiment.momentum
    return OPTIMIZER.make(choice, momentum=momentum)  # type: ignore[no-any-return]


def _check_together(rules: Rules, experiment: Experiment) -> None:
    """Refuse rules whose mathematics do not fit, by name and with the reason."""
    method, name = rules.method, experiment.method.name
    if method.needs_classes and not rules.task.has_class_logits:
        raise UserError(
            f"method '{name}' compares the probabilities of classes, which task '{experiment.task}' does not have; "
            "accepted: another method"
        )
    if rules.attack.poisons and not isinstance(rules.task, Classification):
        raise UserError(
            f"attack '{experiment.attack}' changes the classes of samples, which task '{experiment.task}' does not "
            "have; accepted: task classification, or another attack"
        )
    if method.replaces_loss and not (type(rules.task) is Classification and rules.task.is_plain):
        raise UserError(
            f"method '{name}' trains on its own form of the cross entropy, in place of the loss of task "
            f"'{experiment.task}'; accepted: task classification without options of its loss, or another method"
        )
    if method.optimizers is not None and experiment.optimizer.name not in method.optimizers:
        raise UserError(
            f"optimizer '{experiment.optimizer}' does not fit method '{name}', whose steps are those of "
            f"{' or '.join(method.optimizers)}; accepted: {', '.join(method.optimizers)}"
        )
    if method.needs_travel and rules.optimizer.travel(1.0, 1, kept=False) is None:
        raise UserError(
            f"optimizer '{experiment.optimizer}' cannot say how far its steps go, which method '{name}' needs; "
            "accepted: sgd, or another method"
        )
    if method.exchanges > 1 and not rules.upload_codec.is_identity:
        raise UserError(
            f"upload_codec '{experiment.upload_codec}' codes the difference to what a client has just received, but "
            f"method '{name}' has {method.exchanges} exchanges a round and answers in one what it received in another; "
            "accepted: none, or another method"
        )
    if not rules.combine.is_mean:
        if method.totals:
            raise UserError(
                f"combine '{experiment.combine}' has no sum over clients, which method '{name}' takes of "
                f"'{method.totals[0]}'; accepted: mean, or another method"
            )
        if method.needs_each:
            raise UserError(
                f"combine '{experiment.combine}' has no effect on method '{name}', which looks at each upload on its "
                "own; accepted: mean, or another method"
            )
    check_private_rules(experiment, rules)
    if experiment.per_round is not None:
        rules.combine.check(experiment.per_round)
