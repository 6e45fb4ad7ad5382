"""The families of rules that an experiment is made of, by its field. Nothing is imported until a rule is used.

Data sets (`fedtrip.data.catalog`) and models (modules of `fedtrip.models`) are no classes with options, and so no
rules; they are listed and completed beside them.
"""

from __future__ import annotations

from fedtrip.registry import Family
from fedtrip.registry.rule_files import module_names

METHOD = Family(
    "method", "fedtrip.methods", "Method", default="fedtrip", says="what server and clients do with vectors"
)
PARTITION = Family(
    "partition", "fedtrip.partitions", "PartitionRule", default="dirichlet", says="which samples a client has"
)
TASK = Family(
    "task", "fedtrip.tasks", "Task", default="classification", says="the loss of a batch, and how a model is scored"
)
OPTIMIZER = Family(
    "optimizer", "fedtrip.optimizers", "Optimizer", default="sgd", says="how a local gradient becomes a step"
)
LR_SCHEDULE = Family(
    "lr_schedule", "fedtrip.schedules", "Schedule", default="constant", says="the local learning rate of each round"
)
SELECT = Family("select", "fedtrip.selection", "Select", default="uniform", says="who takes part in a round")
UPLOAD_CODEC = Family(
    "upload_codec", "fedtrip.codecs", "Codec", default="none", says="how an upload becomes bytes, and back"
)
COMBINE = Family("combine", "fedtrip.combining", "Combine", default="mean", says="how the clients' vectors become one")
SERVER_OPTIMIZER = Family(
    "server_optimizer",
    "fedtrip.server_optimizers",
    "ServerOptimizer",
    default="none",
    says="how the server steps towards what was combined",
)
AUGMENT = Family(
    "augment",
    "fedtrip.augmentations",
    "Augment",
    default="none",
    says="how the inputs of a training batch are changed at random",
    joined="several",
)
ATTACK = Family("attack", "fedtrip.attacks", "Attack", default="none", says="what faulty or hostile clients do")

FAMILIES = {
    family.field: family
    for family in (
        METHOD, PARTITION, TASK, AUGMENT, OPTIMIZER, LR_SCHEDULE, SELECT, UPLOAD_CODEC, COMBINE, SERVER_OPTIMIZER,
        ATTACK,
    )
}  # fmt: skip
"""The families by the experiment's field."""

NO_MODELS = ("chain", "chain-layers", "check", "image", "initial", "representation", "residual", "sequence")
"""Modules of the models' folder that hold no model."""


def model_names() -> list[str]:
    """The built-in models, the default first; nothing is imported."""
    found = (name for name in module_names("fedtrip.models") if name not in NO_MODELS)
    return sorted(found, key=lambda name: (name != "mlp", name))
