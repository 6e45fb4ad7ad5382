"""`fedtrip partition`: look at how a partition spreads the labels over the clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from fedtrip.cli import completion
from fedtrip.cli.console import err, out, print_json
from fedtrip.cli.options import DataDir, absolute
from fedtrip.errors import UserError
from fedtrip.families import PARTITION, TASK

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from fedtrip.data.dataset import DataSet

SHOWN = 50
FIGURE_4 = ("dirichlet:0.1", "dirichlet:0.5", "orthogonal:5", "orthogonal:10")
OF_NUMBERS = ("bins:10", "iid")
"""What is drawn of a regression's data, if nothing was said."""


def partition(
    dataset: Annotated[
        str,
        typer.Option(
            help="data set, as in `fedtrip run` (default: digits)",
            show_default=False,
            autocompletion=completion.data_sets,
        ),
    ] = "digits",
    data_dir: DataDir = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            "--partition",
            help="one or more, comma-separated, each a panel of the figure (default: Figure 4's dirichlet:0.1, "
            "dirichlet:0.5, orthogonal:5, orthogonal:10 as far as the data suffice; bins:10 and iid for a regression; "
            "given if they come split)",
            show_default=False,
            autocompletion=completion.several(completion.rules_of(PARTITION)),
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            help="what is learnt: classification, or regression for targets that are numbers (default: classification)",
            show_default=False,
            autocompletion=completion.rules_of(TASK),
        ),
    ] = "classification",
    draw: Annotated[
        str, typer.Option(help="overlap, nested or disjoint (default: overlap)", show_default=False)
    ] = "overlap",
    clients: Annotated[int | None, typer.Option(help="N, all clients (default: 10)", show_default=False)] = None,
    samples_per_client: Annotated[
        int | None, typer.Option(help="samples of each client (default: as in `fedtrip run`)", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the draw (default: 0)", show_default=False)] = 0,
    figure: Annotated[
        Path, typer.Option("--out", help="the figure, PNG, PDF or SVG (default: partition.png)", show_default=False)
    ] = Path("partition.png"),
    as_json: Annotated[bool, typer.Option("--json", help="print the counts as JSON")] = False,
) -> None:
    """Draw the label distribution of the clients (the paper's Figure 4) and print it as a table.

    Of targets that are numbers it shows quantile bins: those of the partition, or ten.

    Example: fedtrip partition --dataset mnist --partition dirichlet:0.5 --out labels.png
    """
    from fedtrip.data import load_dataset
    from fedtrip.experiment.description import Experiment
    from fedtrip.experiment.federation import prepare
    from fedtrip.figures.drawing import FORMATS
    from fedtrip.figures.labels import draw_label_distribution
    from fedtrip.files.atomic import check_writable
    from fedtrip.partitions.interface import label_counts

    check_writable(figure, FORMATS)
    experiment = Experiment(
        dataset=dataset, task=task, draw=draw, clients=clients, seed=seed,
        per_round=1, samples_per_client=samples_per_client, method="fedavg",
    )  # fmt: skip
    loaded = load_dataset(dataset, absolute(data_dir), progress=True, targets=TASK.make(task).targets)
    kind = _kind_of_groups(loaded, task)
    asked = None if partitions is None else [part.strip() for part in partitions.split(",")]
    counts: dict[str, NDArray[np.int64]] = {}
    number = 0
    usual = FIGURE_4 if kind == "class" else OF_NUMBERS
    for spec in asked or (usual if loaded.clients is None else ("given",)):
        try:
            drawn = prepare(experiment.but(partition=spec), loaded=loaded).partition
        except UserError as problem:
            if asked or not counts:
                raise
            err.print(f"left out: {problem}", markup=False, soft_wrap=True)
            continue
        number = drawn.clients
        counts[spec] = label_counts(drawn, *_groups(loaded, spec), range(min(SHOWN, number)))
    try:
        draw_label_distribution(counts, figure, kind)
    except OSError as problem:
        raise UserError(f"--out '{figure}' cannot be written: {problem.strerror or problem}") from None
    if as_json:
        print_json({"figure": str(figure), "counts": {spec: table.tolist() for spec, table in counts.items()}})
        return
    for spec, table in counts.items():
        out.print(f"{dataset}, {spec}: samples of each {kind}", markup=False, style="italic", soft_wrap=True)
        view = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for name in ("client", *(str(label) for label in range(table.shape[1])), "sum"):
            view.add_column(name, justify="right", no_wrap=True)
        for client, row in enumerate(table):
            view.add_row(str(client), *(str(n) if n else "[dim]·[/]" for n in row), f"[bold]{row.sum()}[/]")
        out.print(view, soft_wrap=True)  # a line for each client, however many classes there are
    if number > SHOWN:
        out.print(f"the first {SHOWN} of {number:,} clients")
    out.print(f"figure: {figure}", markup=False, soft_wrap=True)


def _kind_of_groups(dataset: DataSet, task: str) -> str:
    """What a row of the table counts: samples of each class, or of each bin of numbers."""
    if dataset.targets == "classes":
        return "class"
    if dataset.targets == "numbers" and dataset.y_train.numel() == len(dataset.y_train):
        return "bin"
    raise UserError(
        f"task is '{task}', and the targets can be shown neither by class nor by bin; accepted: a task with one class "
        "or one number a sample"
    )


def _groups(dataset: DataSet, spec: str) -> tuple[Tensor, int]:
    """The class or bin of each training sample, and how many there are."""
    import torch

    from fedtrip.partitions.bins import Bins

    if dataset.targets == "classes":
        return dataset.y_train, dataset.classes
    rule = PARTITION.make(spec)
    bins = rule if isinstance(rule, Bins) else PARTITION.make(OF_NUMBERS[0])
    return torch.from_numpy(bins.bin_of(dataset.y_train)), bins.bins
