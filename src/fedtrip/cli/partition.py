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
from fedtrip.families import PARTITION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHOWN = 50
FIGURE_4 = ("dirichlet:0.1", "dirichlet:0.5", "orthogonal:5", "orthogonal:10")


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
            "dirichlet:0.5, orthogonal:5, orthogonal:10 as far as the data suffice; given if they come split)",
            show_default=False,
            autocompletion=completion.several(completion.rules_of(PARTITION)),
        ),
    ] = None,
    draw: Annotated[
        str, typer.Option(help="overlap, nested or disjoint (default: overlap)", show_default=False)
    ] = "overlap",
    clients: Annotated[int | None, typer.Option(help="N, all clients (default: 10)", show_default=False)] = None,
    samples_per_client: Annotated[
        int | None, typer.Option(help="samples of each client (default: as in `fedtrip run`)", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the draw (default: 0)", show_default=False)] = 0,
    figure: Annotated[
        Path, typer.Option("--out", help="the figure, PNG or SVG (default: partition.png)", show_default=False)
    ] = Path("partition.png"),
    as_json: Annotated[bool, typer.Option("--json", help="print the counts as JSON")] = False,
) -> None:
    """Draw the label distribution of the clients (the paper's Figure 4) and print it as a table.

    Example: fedtrip partition --dataset mnist --partition dirichlet:0.5 --out labels.png
    """
    from fedtrip.data import load_dataset
    from fedtrip.experiment.description import Experiment
    from fedtrip.experiment.federation import prepare
    from fedtrip.figures.labels import draw_label_distribution
    from fedtrip.files.atomic import check_writable
    from fedtrip.partitions.interface import label_counts

    check_writable(figure, (".png", ".svg"))
    experiment = Experiment(
        dataset=dataset, draw=draw, clients=clients, seed=seed,
        per_round=1, samples_per_client=samples_per_client, method="fedavg",
    )  # fmt: skip
    loaded = load_dataset(dataset, absolute(data_dir), progress=True)
    asked = None if partitions is None else [part.strip() for part in partitions.split(",")]
    counts: dict[str, NDArray[np.int64]] = {}
    number = 0
    for spec in asked or (FIGURE_4 if loaded.clients is None else ("given",)):
        try:
            drawn = prepare(experiment.but(partition=spec), loaded=loaded).partition
        except UserError as problem:
            if asked or not counts:
                raise
            err.print(f"left out: {problem}", markup=False, soft_wrap=True)
            continue
        number = drawn.clients
        counts[spec] = label_counts(drawn, loaded.y_train, loaded.classes, range(min(SHOWN, number)))
    try:
        draw_label_distribution(counts, figure)
    except OSError as problem:
        raise UserError(f"--out '{figure}' cannot be written: {problem.strerror or problem}") from None
    if as_json:
        print_json({"figure": str(figure), "counts": {spec: table.tolist() for spec, table in counts.items()}})
        return
    for spec, table in counts.items():
        out.print(f"{dataset}, {spec}: samples of each class", markup=False, style="italic", soft_wrap=True)
        view = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for name in ("client", *(str(label) for label in range(table.shape[1])), "sum"):
            view.add_column(name, justify="right", no_wrap=True)
        for client, row in enumerate(table):
            view.add_row(str(client), *(str(n) if n else "[dim]·[/]" for n in row), f"[bold]{row.sum()}[/]")
        out.print(view, soft_wrap=True)  # a line for each client, however many classes there are
    if number > SHOWN:
        out.print(f"the first {SHOWN} of {number:,} clients")
    out.print(f"figure: {figure}", markup=False, soft_wrap=True)
