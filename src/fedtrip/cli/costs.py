"""`fedtrip costs`: what each method adds to FedAvg, for any model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from fedtrip.cli import completion
from fedtrip.cli.console import out, print_json
from fedtrip.families import METHOD, model_names


def costs(
    model: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(model_names())}, or your own as package.module:factory", autocompletion=completion.models
        ),
    ] = "mlp",
    dataset: Annotated[
        str,
        typer.Option(
            help="known data set that gives the input's shape and the classes (default: digits)",
            show_default=False,
            autocompletion=completion.data_sets,
        ),
    ] = "digits",
    samples_per_client: Annotated[
        int | None,
        typer.Option(help="n, samples of the client (default: the data set's)", min=1, show_default=False),
    ] = None,
    local_epochs: Annotated[int, typer.Option(help="E, epochs of local training a round", min=1)] = 1,
    batch_size: Annotated[int, typer.Option(help="M, samples of a local step", min=1)] = 50,
    methods: Annotated[
        str,
        typer.Option(
            help="methods, comma-separated, or all", autocompletion=completion.several(completion.rules_of(METHOD))
        ),
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> None:
    """Print what each method costs one client in one round: the paper's Table 8, evaluated for any model.

    Attaching operations are counted as the paper does; formulas that the paper does not give are marked as ours. Bytes
    are those of the arrays that really travel, seen in a small run.

    Example: fedtrip costs --model cnn --dataset mnist --methods all
    """
    from fedtrip.comparison.method_costs import method_costs
    from fedtrip.data.catalog import known_set
    from fedtrip.models import build_model

    known = known_set(dataset)
    module = build_model(model, known.shape, known.classes, seed=0)
    samples = samples_per_client or known.samples_per_client
    rows = method_costs(
        METHOD.names() if methods == "all" else [name.strip() for name in methods.split(",")],
        module=module,
        model=model,
        dataset=known.name,
        sample_shape=known.shape,
        classes=known.classes,
        samples=samples,
        epochs=local_epochs,
        batch_size=batch_size,
    )
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = Table(
        title=f"{model}, {known.name}, n = {samples}, E = {local_epochs}, M = {batch_size}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for name in ("method", "attaching operations"):
        table.add_column(name)
    for name in ("MFLOPs", "of training", "kB down", "kB up", "kB kept"):
        table.add_column(name, justify="right")
    for row in rows:
        formula = "not declared" if row.formula is None else row.formula + ("" if row.from_paper else " (ours)")
        table.add_row(
            row.method,
            formula,
            "–" if row.attaching_mflops is None else f"{row.attaching_mflops:,.2f}",
            "–" if row.relative is None else f"{row.relative:.2%}",
            *(f"{size / 1e3:,.0f}" for size in (row.bytes_down, row.bytes_up, row.bytes_stored)),
        )
    out.print(table)
    out.print(
        "One client, one round. Attaching operations as in the paper's Table 8; FedAvg's own training is E·n·(FP+BP) "
        "multiply-adds, as torch's FLOP counter sees them. (ours): not in the paper.",
        style="dim",
    )
