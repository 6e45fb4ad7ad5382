"""What an experiment and its parts are called where people read it."""

from __future__ import annotations

from fedtrip.data.sources import FORMS, short_name
from fedtrip.experiment.description import PYTHON, Experiment
from fedtrip.families import TASK


def shown_method(name: str) -> str:
    """A method's name; of a class of the user's own, `package.module:Class`, the class's alone."""
    parts = name.rpartition(":")[2].split(".")
    return parts[-1] if all(part.isidentifier() for part in parts) else name


def title_of(experiment: Experiment) -> str:
    """What was run on what, without the method."""
    parts = [without_folders(experiment.dataset), without_folders(experiment.model), str(experiment.partition)]
    return ", ".join([*parts, *_task_in_words(experiment)])


def run_title(experiment: Experiment) -> str:
    """The method and the data of one run."""
    return f"{shown_method(experiment.method.name)} on {without_folders(experiment.dataset)}"


def _task_in_words(experiment: Experiment) -> list[str]:
    """The task, where it is not the usual one; of its options only the goal, because a part has one."""
    task = experiment.task
    if task.name not in TASK.names():
        return [str(task)]
    named = [] if task.text == TASK.default else [task.text]
    return [*named, *(str(value) for option, value in task.options.items() if option == "score")]


def without_folders(name: str) -> str:
    """A user's own file without the folders it lies in, a Python object by the beginning of its digest."""
    kind, colon, rest = name.partition(":")
    if colon and kind in FORMS:
        return short_name(name)
    return f"{kind}:{rest[:12]}…" if colon and f"{kind}:" == PYTHON else name
