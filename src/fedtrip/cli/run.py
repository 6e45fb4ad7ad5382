"""`fedtrip run` and `fedtrip evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedtrip.cli.console import err, out, print_json
from fedtrip.cli.options import DataDir, Device, ExperimentFile, absolute, read_settings, with_experiment_options
from fedtrip.cli.progress import Live, note_of, refusals
from fedtrip.errors import UserError


@with_experiment_options
def run(
    experiment_file: ExperimentFile = None,
    data_dir: DataDir = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="fedtrip, fedavg, fedprox, slowmo, moon, feddyn, or your own as package.module:Class. "
            "[default: fedtrip]",
            rich_help_panel="Local training",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="An option of the method, e.g. method.mu=0.4; repeatable.", rich_help_panel="Local training"
        ),
    ] = None,
    device: Device = "cpu",  # noqa: ARG001, checked by its callback
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; does not change the result. [default: the cores]", show_default=False),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Run folder to write. [default: a new one in runs/]", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that --out holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Run one federated experiment and write its run folder.

    Without any option: FedTrip on scikit-learn's digits with an MLP, 4 of 10 clients a round, Dirichlet(0.5) data,
    100 rounds. All options are fields of an experiment; the folder's experiment.toml repeats the run to the bit.

    Examples:

      fedtrip run --method fedavg --rounds 30

      fedtrip run --dataset fashion-mnist --model cnn --set method.mu=0.4 --out runs/mine

      fedtrip run runs/mine/experiment.toml --seed 1
    """
    from fedtrip.api import run_federation
    from fedtrip.experiment import Experiment
    from fedtrip.federation import prepare
    from fedtrip.runs import check_out, unused_folder

    base = Experiment.from_toml(experiment_file) if experiment_file is not None else Experiment()
    experiment = experiment_from(base, fields, method, settings or [])
    stem = f"{experiment.method.name}-{experiment.model}-{experiment.dataset}-seed{experiment.seed}"
    where = absolute(folder) or unused_folder(stem)
    check_out(where, overwrite)
    federation = prepare(experiment, data_dir=absolute(data_dir), progress=not quiet)
    target = federation.experiment.target
    title = f"{experiment.method.name} on {experiment.dataset}"
    with Live(title, experiment.rounds, quiet=quiet) as live:

        def show(record: Any) -> None:
            live.advance(note_of(record, target))
            if (message := refusals(record)) is not None:
                live.warn(message)

        result = run_federation(federation, out=where, overwrite=overwrite, workers=workers, on_round=show)
    summary = result.summary()
    if as_json:
        print_json({**summary, "out": str(where)})
    else:
        _print_summary(summary, where)
    if result.ended is not None:
        err.print(f"[red]ended early:[/] {result.ended}", soft_wrap=True)
        raise typer.Exit(1)


def evaluate(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `fedtrip run` wrote.")],
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Test a stored model on its experiment's test set."""
    from fedtrip.api import evaluate as evaluate_run

    accuracy, loss = evaluate_run(run_folder, data_dir=absolute(data_dir))
    if as_json:
        print_json({"run": str(run_folder), "accuracy": accuracy, "loss": loss})
    else:
        out.print(f"{run_folder}: test accuracy {accuracy:.4f}, loss {loss:.4f}")


def experiment_from(base: Any, fields: dict[str, Any], method: str | None, settings: list[str]) -> Any:
    """The experiment with the command line's fields; `--set method.x=…` or `--set METHOD.x=…` go to the method."""
    name = method or base.method.name
    options = dict(base.method.options) if name == base.method.name else {}
    for key, values in read_settings(settings).items():
        owner, dot, option = key.rpartition(".")
        if len(values) > 1:
            raise UserError(f"--set {key} has {len(values)} values; accepted: one (a sweep needs `fedtrip compare`)")
        if not dot or owner not in ("method", name):
            raise UserError(
                f"--set '{key}' is unknown; accepted: method.OPTION; other fields have options of their own"
            )
        options[option] = values[0]
    return base.but(**fields, method={"name": name, "options": options})


def _print_summary(summary: dict[str, Any], where: Path) -> None:
    target, reached = summary["target"], summary["rounds_to_target"]
    table = Table(show_header=False, box=None)
    rows = {
        f"rounds to {target:.0%}" if target is not None else "rounds to target": reached
        if reached is not None
        else ("no target" if target is None else f"not reached in {summary['rounds']}"),
        "final accuracy": _percent(summary["final_accuracy"]) + "  (mean of the last 10 evaluated rounds)",
        "best accuracy": _percent(summary["best_accuracy"]),
        "traffic": f"{summary['megabytes']:.2f} MB, all clients, down and up",
        "computing": f"{summary['gmacs_total']:.2f} GMACs, all clients, forward and backward",
        "paper's GFLOPs": "not declared by the method"
        if summary["gflops"] is None
        else f"{summary['gflops']:.3f}, one client, forward passes and attaching operations",
        "time": f"{summary['seconds']:.1f} s for {summary['rounds']} rounds",
        "model SHA-256": summary["model_sha256"],
        "run folder": str(where),
    }
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/]", str(value))
    out.print(table)


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2%}"
