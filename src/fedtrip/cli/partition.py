"""`fedtrip partition`: look at how a partition spreads the labels over the clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedtrip.cli.console import out, print_json
from fedtrip.cli.options import DataDir, absolute

SHOWN = 50


def partition(
    dataset: Annotated[str, typer.Option(help="Data set, as in `fedtrip run`.")] = "digits",
    data_dir: DataDir = None,
    partitions: Annotated[
        str,
        typer.Option("--partition", help="One or more, comma-separated; each becomes a panel of the figure."),
    ] = "dirichlet:0.1,dirichlet:0.5,orthogonal:5,orthogonal:10",
    draw: Annotated[str, typer.Option(help="overlap, nested or disjoint.")] = "overlap",
    clients: Annotated[int | None, typer.Option(help="N, all clients. [default: 10]", show_default=False)] = None,
    samples_per_client: Annotated[
        int | None, typer.Option(help="Samples of each client. [default: the paper's]", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    figure: Annotated[Path, typer.Option("--out", help="The figure, PNG or SVG.")] = Path("partition.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Draw the label distribution of the clients (the paper's Figure 4) and print it as a table.

    Example: fedtrip partition --dataset mnist --partition dirichlet:0.5 --out labels.png
    """
    from fedtrip.experiment import Experiment
    from fedtrip.federation import prepare
    from fedtrip.files import check_writable
    from fedtrip.label_plot import draw_label_distribution
    from fedtrip.partition import label_counts

    check_writable(figure, (".png", ".svg"))
    counts, loaded = {}, None
    for spec in (part.strip() for part in partitions.split(",")):
        experiment = Experiment(
            dataset=dataset, partition=spec, draw=draw, clients=clients, seed=seed,
            per_round=1, samples_per_client=samples_per_client, method="fedavg",
        )  # fmt: skip
        federation = prepare(experiment, data_dir=absolute(data_dir), loaded=loaded, progress=True)
        loaded = federation.dataset
        shown = range(min(SHOWN, federation.partition.clients))
        counts[spec] = label_counts(federation.partition, loaded.y_train, loaded.classes, shown)
    draw_label_distribution(counts, figure)
    if as_json:
        print_json({"figure": str(figure), "counts": {spec: table.tolist() for spec, table in counts.items()}})
        return
    for spec, table in counts.items():
        view = Table(title=f"{dataset}, {spec}: samples of each class", title_justify="left")
        for name in ("client", *(str(label) for label in range(table.shape[1])), "sum"):
            view.add_column(name, justify="right")
        for client, row in enumerate(table):
            view.add_row(str(client), *(str(n) if n else "[dim]·[/]" for n in row), f"[bold]{row.sum()}[/]")
        out.print(view)
    out.print(f"figure: {figure}", soft_wrap=True)
