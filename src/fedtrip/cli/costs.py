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

TOKENS_SAMPLES = 600
"""Samples of a client where no known data set has the model's kind of inputs; MNIST's."""


def costs(
    model: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(model_names())}, or your own as package.module:factory", autocompletion=completion.models
        ),
    ] = "mlp",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="known data set that gives the input's shape and the classes (default: digits; for a model of token "
            "ids sequences of its usual length)",
            show_default=False,
            autocompletion=completion.data_sets,
        ),
    ] = None,
    samples_per_client: Annotated[
        int | None,
        typer.Option(
            help=f"n, samples of the client (default: the data set's; {TOKENS_SAMPLES} without one)",
            min=1,
            show_default=False,
        ),
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
    from fedtrip.experiment.names import shown_method
    from fedtrip.inputs import spec_of
    from fedtrip.models import build_model, check_model_spec, takes_tokens, usual_samples

    check_model_spec(model)
    if dataset is None and takes_tokens(model):
        inputs, classes = usual_samples(model)
        named, samples = f"{inputs.shape[0]} places of {classes} tokens", samples_per_client or TOKENS_SAMPLES
    else:
        known = known_set(dataset or "digits")
        inputs, classes = spec_of(known.shape), known.classes
        named, samples = known.name, samples_per_client or known.samples_per_client
    module = build_model(model, inputs, classes, seed=0)
    refused: dict[str, str] = {}
    rows = method_costs(
        METHOD.names() if methods == "all" else [name.strip() for name in methods.split(",")],
        module=module,
        model=model,
        dataset=named,
        inputs=inputs,
        classes=classes,
        samples=samples,
        epochs=local_epochs,
        batch_size=batch_size,
        refused=refused if methods == "all" else None,
    )
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = Table(
        title=f"{model}, {named}, n = {samples}, E = {local_epochs}, M = {batch_size}",
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
            shown_method(row.method),
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
    for name, reason in refused.items():
        out.print(f"{name} is left out: {reason}", style="dim", markup=False)
