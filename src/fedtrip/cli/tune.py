"""`fedtrip tune`: the same budget of rounds for every method to find its values, then a comparison on fresh seeds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from fedtrip.api.progress import LiveTuning
from fedtrip.cli import completion
from fedtrip.cli.compare import named_methods, tell_early_ends
from fedtrip.cli.console import err, out, print_json, typed_command
from fedtrip.cli.options import (
    DataDir,
    ExperimentFile,
    RayAddress,
    TrialEngine,
    absolute,
    read_settings,
    say_code_of_file,
    with_experiment_options,
)
from fedtrip.errors import UserError
from fedtrip.interruption import Ended, Interruption, how_it_ended

if TYPE_CHECKING:
    from fedtrip.api.tuning import Tuning
    from fedtrip.comparison.variants import Row
    from fedtrip.statistics import Ratio

PANEL = "Tuning"


@with_experiment_options
def tune(
    experiment_file: ExperimentFile = None,
    data_dir: DataDir = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="methods, comma-separated; paper: the six of the paper's tables, all: all of `fedtrip methods` "
            "(default: paper's and fedtrip-auto)",
            rich_help_panel=PANEL,
            show_default=False,
            autocompletion=completion.several(completion.methods),
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="rounds that each method may spend on finding its values, eliminated configurations included; at "
            "least 2 × --rounds × --tuning-trials",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="what to tune over, in place of a method's own range or beside it: fedprox.mu=0.001..1:log, "
            "lr=0.01..1:log, momentum=0,0.5,0.9; repeatable (default: what the methods declare, and lr from a tenth to "
            "a hundred times --lr)",
            rich_help_panel=PANEL,
            show_default=False,
            autocompletion=completion.settings,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="a value that all configurations have, and that is not tuned: fedprox.mu=0.1, lr=0.05; repeatable",
            rich_help_panel=PANEL,
            autocompletion=completion.settings,
        ),
    ] = None,
    tuning_trials: Annotated[
        int,
        typer.Option(
            help="seeds on which each configuration is tried, from --seed on (default: 2)",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = 2,
    trials: Annotated[
        int,
        typer.Option(
            help="runs of each variant in the comparison at the end, on the seeds that follow (default: 3)",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = 3,
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the tuning that --out holds")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with the tuning that --out holds, or begin it; the same result")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print what came out as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Tune methods fairly: the same budget of rounds for each, judged on validation data; then compare on fresh seeds.

    Each method tries the same number of configurations, its defaults among them, drawn from the ranges that it
    declares and from one of the learning rate. Successive halving: all run for a ninth of --rounds, the best third of
    them for a third, the best of those to the end. Test scores are not looked at before the comparison at the end,
    which has every method with its defaults and with its chosen values, on seeds that were not used before.

    Examples:

      fedtrip tune --methods fedavg,fedprox,scaffold --budget 1000

      fedtrip tune --methods fedavg,fedprox --budget 400 --rounds 50 --range fedprox.mu=0.01..1:log

    Without --validation a fifth of the training set is held out to judge by; the comparison at the end has all of it
    again. While configurations are judged, --stop-at-target, --patience and --keep-best have no effect.
    """
    from fedtrip.api.tuning import tune as run_tuning
    from fedtrip.experiment.defaults import changed
    from fedtrip.experiment.description import Experiment
    from fedtrip.runs.folder import unused_folder

    stored = Experiment.from_toml(experiment_file) if experiment_file is not None else Experiment()
    say_code_of_file(stored, experiment_file, {**fields, "method": methods})
    base = changed(stored, **fields)
    if budget is None:
        raise UserError("--budget is missing; accepted: the rounds that each method may spend, such as --budget 1000")
    if resume and folder is None:
        raise UserError("--resume needs to know which tuning; accepted: --resume --out FOLDER")
    where = absolute(folder) or unused_folder(f"tune-{base.model}-{base.dataset}")
    with LiveTuning(quiet) as progress, Interruption() as interruption:
        try:
            tuning = run_tuning(
                base,
                out=where,
                budget=budget,
                methods=named_methods(methods),
                ranges=_read_ranges(ranges or []),
                settings=_single(read_settings(settings or [])),
                trials=trials,
                tuning_trials=tuning_trials,
                data_dir=absolute(data_dir),
                workers=workers,
                engine=engine,
                address=address,
                overwrite=overwrite,
                resume=resume,
                progress=not quiet,
                watcher=progress,
                stop=lambda: interruption.asked,
                command=typed_command(),
            )
        except Ended as reason:
            told = f"{how_it_ended(reason)}; to go on: the same command with --resume --out {shlex.quote(str(where))}"
            err.print(told, markup=False, highlight=False, soft_wrap=True)
            raise
    _show(tuning, as_json)


def _read_ranges(ranges: list[str]) -> dict[str, str]:
    """`--range NAME=VALUES` as {NAME: VALUES}."""
    read: dict[str, str] = {}
    for text in ranges:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not (name and equals and values):
            raise UserError(f"--range '{text}' cannot be read; accepted: NAME=LOW..HIGH:log, e.g. lr=0.001..1:log")
        if name in read:
            raise UserError(f"--range {name} is given more than once; accepted: once")
        read[name] = values
    return read


def _single(settings: dict[str, list[Any]]) -> dict[str, Any]:
    for name, values in settings.items():
        if len(values) > 1:
            raise UserError(f"--set {name} has {len(values)} values; accepted: one, or --range {name}=VALUE,VALUE")
    return {name: values[0] for name, values in settings.items()}


def _show(tuning: Tuning, as_json: bool) -> None:
    from fedtrip.comparison.folder import REPORT
    from fedtrip.comparison.tuning_folder import PAGE, TUNING
    from fedtrip.comparison.tuning_page import in_a_line

    tell_early_ends(tuning.verdict)
    if as_json:
        import json

        print_json({"out": str(tuning.out), **json.loads((tuning.out / TUNING).read_text(encoding="utf-8"))})
        return
    plan, trials = tuning.plan, len(tuning.plan.fresh_seeds)
    title = f"{tuning.title}, {trials} trial{'s'[: trials > 1]} on fresh seeds"
    out.print(title, style="italic", markup=False, soft_wrap=True)
    out.print(_table(tuning))
    out.print(_note(tuning), style="dim", markup=False)
    out.print()
    for name, one in tuning.methods.items():
        told = "its defaults were the best" if one.chosen.number == 0 else "chosen"
        out.print(f"{name}: {told}: {in_a_line(one.values, name)}", markup=False)
        for remark in one.remarks:
            out.print(f"  {remark}", style="dim", markup=False)
    spent, count = f"{plan.halving.cost:,} of {plan.budget:,} rounds", plan.halving.configurations[0]
    out.print(f"Every method spent {spent} on {count} configurations.", markup=False)
    files = {"page": tuning.out / PAGE, "report": tuning.verdict.out / REPORT}
    out.print("", *(f"{what:<8}{path}" for what, path in files.items()), sep="\n", markup=False, soft_wrap=True)


def _table(tuning: Tuning) -> Table:
    from fedtrip.comparison.tables import interval

    rows, count = tuning.verdict.rows, len(tuning.gains)
    what = tuning.plan.goal.score if tuning.plan.target is None else "rounds"
    shown = [f"{what}\nbefore", f"{what}\nafter"]
    if tuning.plan.target is not None:
        shown += ["gain\n[95 %]", "speed-up\nbefore", "speed-up\nafter"]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("method", overflow="fold")
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for gain, before, after in zip(tuning.gains.values(), rows[:count], rows[count:], strict=True):
        cells = [_rounds(before), _rounds(after), interval(gain), _brief(before.speedup), _brief(after.speedup)]
        table.add_row(escape(before.variant), *map(escape, cells[: len(shown)]))
    return table


def _note(tuning: Tuning) -> str:
    """How to read the table."""
    if tuning.plan.target is None:
        return f"Final {tuning.plan.goal.score} with the defaults and with what was chosen, mean of the trials."
    return (
        "Rounds to target with the defaults and with what was chosen, mean of the trials. Gain: before over after, "
        "paired by seed. Speed-up: over fedavg, before with its defaults too, after tuned too."
    )


def _rounds(row: Row) -> str:
    """Mean rounds to target, or the final score where there is none."""
    if row.target is None:
        return "none" if row.final_score is None else row.goal.shown(row.final_score.mean)
    return f"{'>' if row.censored else ''}{row.rounds.mean:.1f}"


def _brief(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{ratio.bound}{ratio.mean:.2f}×"
