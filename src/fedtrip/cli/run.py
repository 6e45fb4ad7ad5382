"""`fedtrip run` and `fedtrip evaluate`."""

from __future__ import annotations

import math
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedtrip.api.progress import LiveRun
from fedtrip.cli import completion
from fedtrip.cli.console import err, out, print_json
from fedtrip.cli.options import (
    FIELDS,
    DataDir,
    ExperimentFile,
    TensorBoard,
    absolute,
    read_settings,
    rules_in_words,
    say_code_of_file,
    spelling,
    with_experiment_options,
)
from fedtrip.errors import UserError
from fedtrip.families import METHOD
from fedtrip.interruption import Ended, Interruption, how_it_ended
from fedtrip.runs.run_engine import RunEngine

if TYPE_CHECKING:
    from fedtrip.tasks.interface import Goal


@with_experiment_options
def run(
    experiment_file: ExperimentFile = None,
    data_dir: DataDir = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"{rules_in_words('method')} (default: {METHOD.default})",
            rich_help_panel="Method",
            show_default=False,
            autocompletion=completion.rules_of(METHOD),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="an option of a rule, e.g. method.mu=0.4 or optimizer.beta1=0.8 (`fedtrip list` explains them), or a "
            "field, e.g. lr=0.05; repeatable",
            rich_help_panel="Method",
            autocompletion=completion.settings,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="processes; does not change the result (default: the cores)", show_default=False),
    ] = None,
    engine: Annotated[
        RunEngine,
        typer.Option(help="where the clients' work is done; does not change the result", show_default=False),
    ] = "local",
    round_timeout: Annotated[
        float | None,
        typer.Option(
            help="seconds after which a round goes on without a client (default: 3600)",
            rich_help_panel="Flower",
            show_default=False,
        ),
    ] = None,
    min_clients: Annotated[
        int | None,
        typer.Option(
            help="uploads without which a round is tried again, then ends the run (default: 1)",
            rich_help_panel="Flower",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="run folder to write (default: a new one in runs/)", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the run that --out holds")] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="go on with the run that --out holds, or begin it; with a run folder in place of the experiment file "
            "go on with that run; same bits in the end",
        ),
    ] = False,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="rounds between checkpoints; does not change the result (default: by time, after a second or twenty "
            "times what the last one took)",
            show_default=False,
        ),
    ] = None,
    client_memory: Annotated[
        str | None,
        typer.Option(
            help="what the clients' memories may take of this machine's, e.g. 2GiB; the rest lies on disk; does not "
            "change the result (default: a quarter of what is available)",
            show_default=False,
        ),
    ] = None,
    tensorboard: TensorBoard = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Run one federated experiment and write its run folder.

    Without any option: FedTrip on digits with an MLP, 4 of 10 clients a round, Dirichlet(0.5) data,
    100 rounds. All options are fields of an experiment; the folder's experiment.toml repeats the run to the bit.

    Examples:

      fedtrip run --method fedavg --rounds 30

      fedtrip run --dataset fashion-mnist --model cnn --set method.mu=0.4 --set lr=0.05

      fedtrip run runs/mine/experiment.toml --seed 1 --out runs/again

      fedtrip run --resume runs/mine
    """
    from fedtrip.experiment.description import Experiment
    from fedtrip.experiment.federation import prepare
    from fedtrip.experiment.names import run_title
    from fedtrip.runs.event_files import EventFiles
    from fedtrip.runs.folder import EXPERIMENT, Destination, read_experiment, unused_folder
    from fedtrip.runs.run_engine import on_engine

    if resume and folder is None:
        if experiment_file is None:
            raise UserError("--resume needs to know which run; accepted: --resume FOLDER, or --resume --out FOLDER")
        read_experiment(experiment_file)  # or it is no run folder
        folder, experiment_file = experiment_file, experiment_file / EXPERIMENT
    base = Experiment.from_toml(experiment_file) if experiment_file is not None else Experiment()
    say_code_of_file(base, experiment_file, {**fields, "method": method})
    experiment = experiment_from(base, fields, method, settings or [])
    stem = f"{experiment.method.name}-{experiment.model}-{experiment.dataset}-seed{experiment.seed}"
    where = absolute(folder) or unused_folder(stem)
    destination = Destination(where, overwrite, resume, checkpoint_every)
    destination.check()
    events = EventFiles.of_run(where) if tensorboard else None
    run_there = on_engine(engine, destination, round_timeout, min_clients, absolute(data_dir), client_memory)
    federation = prepare(experiment, data_dir=absolute(data_dir), progress=not quiet)
    target, goal = federation.experiment.target, federation.rules.task.goal
    showing = LiveRun(run_title(federation.experiment), experiment.rounds, goal, target, quiet=quiet)
    with showing as live, events or nullcontext(), Interruption() as interruption:

        def show(record: Any) -> None:
            live.round(record)
            if events is not None:
                events(record)
            if record.round < experiment.rounds:
                interruption.check()

        try:
            result = run_there(federation, workers=workers, on_round=show)
        except Ended as reason:
            there = "" if engine == "local" else f" --engine {engine}"  # the clients' memories are where the nodes are
            how = how_it_ended(reason)
            told = f"{how} after round {live.done}; to go on: fedtrip run --resume {shlex.quote(str(where))}{there}"
            err.print(told, markup=False, highlight=False, soft_wrap=True)
            raise
    summary = result.summary()
    if as_json:
        print_json({**summary, "out": str(where)})
    else:
        _print_summary(summary, goal, where)
    if result.stopped is not None:
        err.print(f"stopped {escape(result.stopped)}", soft_wrap=True)
    if result.ended is not None:
        err.print(f"[red]ended early:[/] {escape(result.ended)}", soft_wrap=True)
        raise typer.Exit(1)


def evaluate(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="a folder that `fedtrip run` wrote")],
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="another data set, whose test set is used, e.g. npz:FILE (default: the run's)",
            show_default=False,
            autocompletion=completion.of_field("dataset"),
        ),
    ] = None,
    data_dir: DataDir = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="run the code that the run names, if its model or its task is one's own")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="every score that the task knows, such as balanced accuracy and AUC")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> None:
    """Test a stored model on its experiment's test set, or on another data set: the scores of the final model.

    Examples:

      fedtrip evaluate runs/mine

      fedtrip evaluate runs/mine --on npz:new-samples.npz
    """
    from fedtrip.api.runs import evaluate as evaluate_run
    from fedtrip.tasks.interface import SHARES

    scores = evaluate_run(run_folder, data_dir=absolute(data_dir), trust=trust, on=on, details=details)
    if as_json:
        print_json({"run": str(run_folder), **{k: v if math.isfinite(v) else None for k, v in scores.items()}})
    else:
        shown = [
            f"{name} of the final model {value:.2%}" if name in SHARES else f"{name} of the final model {value:.4f}"
            for name, value in scores.items()
            if name != "loss"
        ]
        loss = f"loss {scores['loss']:.4f}"
        out.print(f"{run_folder}: {', '.join([*shown, loss])}", markup=False, soft_wrap=True)


def experiment_from(base: Any, fields: dict[str, Any], method: str | None, settings: list[str]) -> Any:
    """The experiment with the command line's fields and settings.

    `--set x=…` may be a field too, so that a setting of `fedtrip compare` can be tried alone.
    """
    from fedtrip.experiment.settings import check_setting, with_settings

    name = METHOD.read(method).name if method is not None else base.method.name
    given = dict(fields)
    for key, values in read_settings(settings).items():
        check_setting(key, [name], list(FIELDS))
        if len(values) > 1:
            raise UserError(f"--set {key} has {len(values)} values; accepted: one (a sweep needs `fedtrip compare`)")
        if key in fields:
            raise UserError(f"--set {key} is given more than once; accepted: once, here or as {spelling(key)}")
        given[key] = values[0]
    return with_settings(base, name, given)


def _print_summary(summary: dict[str, Any], goal: Goal, where: Path) -> None:
    target, reached = summary["target"], summary["rounds_to_target"]

    def shown(name: str) -> str:
        return "none" if summary[name] is None else goal.shown(summary[name])

    after = "the last round" if summary["model_round"] == summary["rounds"] else f"round {summary['model_round']}"
    rows = {
        f"rounds to {goal.shown_target(target)}" if target is not None else "target": reached
        if reached is not None
        else ("none" if target is None else f"not reached in {summary['rounds']}"),
        f"final {goal.score}": shown("final_score") + "  (mean of the last 10 evaluated rounds)",
        "final model": shown("final_model_score") + f"  ({goal.score} of the final model, after {after})",
        f"best {goal.score}": shown("best_score"),
        **_of_clients(summary, goal),
        "traffic": f"{summary['megabytes']:.2f} MB, all clients, down and up",
        "computing": f"{summary['gmacs_total']:.2f} GMACs, all clients, forward and backward",
        "paper's GFLOPs": "not declared by the method"
        if summary["gflops"] is None
        else f"{summary['gflops']:.3f}, one client, forward passes and attaching operations",
        "time": f"{summary['seconds']:.1f} s for {summary['rounds']} rounds",
        "model SHA-256": summary["model_sha256"],
        "run folder": str(where),
    }
    for name, value in rows.items():  # no table: it would cut a digest or a path that is wider than the terminal
        out.print(f"[bold]{name:<16}[/]{escape(str(value))}", soft_wrap=True)


def _of_clients(summary: dict[str, Any], goal: Goal) -> dict[str, str]:
    """How the last models serve the clients, where these were asked."""

    def told(scores: dict[str, Any]) -> str:
        parts = {"mean": "mean", "worst_tenth": "worst 10 %", "unseen": "never seen"}
        found = [f"{words} {goal.shown(scores[name])}" for name, words in parts.items() if scores[name] is not None]
        return ", ".join(found) or "none"

    titles = {"global": "on clients' own", "personal": "personal models"}
    return {titles[whose]: told(scores) for whose, scores in summary["client_scores"].items()}
