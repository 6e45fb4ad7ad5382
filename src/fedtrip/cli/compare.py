"""`fedtrip compare`: methods side by side on the same seeds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedtrip.api.progress import LiveComparison
from fedtrip.cli import completion
from fedtrip.cli.comparison_table import print_further_columns, print_table
from fedtrip.cli.console import err, out, print_json, typed_command
from fedtrip.cli.options import (
    DataDir,
    ExperimentFile,
    RayAddress,
    TensorBoard,
    TrialEngine,
    absolute,
    read_settings,
    say_code_of_file,
    with_experiment_options,
)
from fedtrip.errors import UserError
from fedtrip.families import METHOD
from fedtrip.interruption import Ended, Interruption, how_it_ended

if TYPE_CHECKING:
    from fedtrip.api.comparisons import Comparison
    from fedtrip.experiment.description import Experiment

SHARING = (
    "Clients may share samples: each draws its own from the whole training set. With --draw disjoint no sample has two "
    "clients."
)


@with_experiment_options
def compare(
    experiment_file: ExperimentFile = None,
    data_dir: DataDir = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="methods, comma-separated; paper: the six of its tables, all: all of `fedtrip methods` (default: "
            "paper's and fedtrip-auto)",
            rich_help_panel="Comparison",
            show_default=False,
            autocompletion=completion.several(completion.methods),
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            help="runs of each variant, on consecutive seeds from --seed (default: 3)",
            rich_help_panel="Comparison",
            show_default=False,
        ),
    ] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="options and sweeps: of one method, fedtrip.mu=0.1,0.4,1; of every method, method.mu=0.4; of another "
            "rule, optimizer.beta1=0.8; a field, lr=0.01,0.1; repeatable",
            rich_help_panel="Comparison",
            autocompletion=completion.settings,
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="VARIANT=TEXT",
            help="what a variant is called in tables, figures and report, e.g. fedtrip=Ours; repeatable",
            rich_help_panel="Comparison",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="method or variant that speed-ups are over (default: fedavg)",
            rich_help_panel="Comparison",
            show_default=False,
            autocompletion=completion.rules_of(METHOD),
        ),
    ] = None,
    device_macs: Annotated[
        float | None,
        typer.Option(
            help="a client's multiply-adds a second, for estimated seconds to target", rich_help_panel="Client's device"
        ),
    ] = None,
    downlink: Annotated[
        float | None, typer.Option(help="its downlink in bit/s, e.g. 10e6", rich_help_panel="Client's device")
    ] = None,
    uplink: Annotated[
        float | None, typer.Option(help="its uplink in bit/s, e.g. 1e6", rich_help_panel="Client's device")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="runs at the same time; does not change results (default: the cores)", show_default=False),
    ] = None,
    engine: TrialEngine = "local",
    address: RayAddress = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="folder to write (default: a new one in runs/)", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the comparison that --out holds")] = False,
    tensorboard: TensorBoard = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with the comparison that --out holds, or begin it; the same table")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the table as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Compare methods on the same seeds: same partition, same initial model, same clients each round.

    Prints rounds to target, the speed-up over FedAvg or the --baseline with its 95 % interval, final accuracy, GFLOPs
    and MB, draws the convergence curves and writes a report; table and plot also as LaTeX and PDF. Without any option:
    the paper's six methods and `fedtrip-auto` on digits, 3 trials each, in about 20 seconds on two cores.

    Examples:

      fedtrip compare --methods fedtrip,fedavg --trials 10

      fedtrip compare --methods fedtrip,fedavg --set fedtrip.mu=0.1,0.4,1
    """
    from fedtrip.api.comparisons import compare as run_comparison
    from fedtrip.comparison.client_device import ClientDevice
    from fedtrip.comparison.labels import read_labels
    from fedtrip.comparison.variants import make_variants
    from fedtrip.experiment.defaults import changed
    from fedtrip.experiment.description import Experiment
    from fedtrip.runs.event_files import EventFiles, check_tensorboard
    from fedtrip.runs.folder import unused_folder

    stored = Experiment.from_toml(experiment_file) if experiment_file is not None else Experiment()
    say_code_of_file(stored, experiment_file, {**fields, "method": methods})
    base = changed(stored, **fields)
    names = named_methods(methods)
    described = (device_macs, downlink, uplink)
    if any(value is not None for value in described) and None in described:
        raise UserError("--device-macs, --downlink and --uplink go together; accepted: all three, or none")
    if resume and folder is None:
        raise UserError("--resume needs to know which comparison; accepted: --resume --out FOLDER")
    if tensorboard:
        check_tensorboard()
    sweeps = read_settings(settings or [])
    named = read_labels(labels, make_variants(base, names, sweeps)) if labels else {}
    where = absolute(folder) or unused_folder(f"compare-{base.model}-{base.dataset}")
    with LiveComparison(quiet, EventFiles.of_run if tensorboard else None) as progress, Interruption() as interruption:
        try:
            comparison = run_comparison(
                base,
                out=where,
                methods=names,
                sweeps=sweeps,
                labels=named,
                baseline=baseline,
                trials=trials,
                data_dir=absolute(data_dir),
                workers=workers,
                engine=engine,
                address=address,
                overwrite=overwrite,
                resume=resume,
                progress=not quiet,
                device=None if device_macs is None else ClientDevice(device_macs, downlink or 0.0, uplink or 0.0),
                watcher=progress,
                stop=lambda: interruption.asked,
                command=typed_command(),
            )
        except Ended as reason:
            told = f"{how_it_ended(reason)}; to go on: the same command with --resume --out {shlex.quote(str(where))}"
            err.print(told, markup=False, highlight=False, soft_wrap=True)
            raise
    _show(comparison, as_json)


def named_methods(methods: str | None) -> list[str]:
    """The methods that `--methods` names."""
    from fedtrip.comparison.variants import PAPER_METHODS, USUAL_METHODS

    groups = {None: USUAL_METHODS, "paper": PAPER_METHODS, "all": METHOD.names()}
    names = groups.get(methods) or [name.strip() for name in (methods or "").split(",") if name.strip()]
    if not names:
        raise UserError(f"--methods is '{methods}'; accepted: names, comma-separated, paper or all")
    return list(names)


def tell_early_ends(comparison: Comparison) -> None:
    """Which of its runs diverged."""
    for label, runs in comparison.results.items():
        for run in runs:
            if run.ended is not None:
                told = escape(f"{label}, seed {run.experiment.seed}: {run.ended}")
                err.print(f"[red]ended early:[/] {told}", soft_wrap=True)


def _may_share(experiment: Experiment) -> bool:
    from fedtrip.partitions.interface import may_share

    return may_share(str(experiment.partition), experiment.draw)


def _show(comparison: Comparison, as_json: bool) -> None:
    from fedtrip.comparison.folder import LATEX, PLOT, REPORT, TABLE
    from fedtrip.comparison.tables import as_records

    tell_early_ends(comparison)
    rows, where = comparison.rows, comparison.out
    if as_json:
        print_json({"out": str(where), "rows": as_records(rows)})
        return
    trials = f"{rows[0].trials} trial{'s' if rows[0].trials > 1 else ''}"
    out.print(f"{comparison.title}, {trials}", style="italic", markup=False, soft_wrap=True)
    print_table(out, rows, TABLE)
    if any(_may_share(runs[0].experiment) for runs in comparison.results.values()):
        out.print(SHARING, style="dim", markup=False)
    if rows[0].device_seconds is not None:
        print_further_columns(out, rows)
    names = {"table": TABLE, "LaTeX": LATEX, "plot": PLOT, "report": REPORT}
    out.print("", *(f"{what:<8}{where / name}" for what, name in names.items()), sep="\n", markup=False, soft_wrap=True)
