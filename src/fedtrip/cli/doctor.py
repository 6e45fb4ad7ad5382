"""`fedtrip doctor`: what this machine has, in one look and in one paste for a bug report."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata, util
from typing import Annotated, Any

import typer
from rich.markup import escape

from fedtrip._version import __version__
from fedtrip.api.progress import Live
from fedtrip.cli.console import out, print_json
from fedtrip.cores import usable_cores

NEEDED = (
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "pydantic",
    "matplotlib",
    "plotly",
    "safetensors",
    "typer",
)
"""The packages whose versions matter in a bug report."""
EXTRAS = {
    "tensorboard": ("tensorboard", "event files with --tensorboard"),
    "flower": ("flwr", "clients in other processes and on other machines"),
    "ray": ("ray", "trials over a cluster"),
    "tsne": ("scikit-learn", "the paper's Figure 2 with fedtrip reproduce"),
    "lora": ("peft", "adapters on a frozen model"),
    "docs": ("mkdocs", "the documentation's pages"),
}
"""Extra → the package that shows it is there, and what it is for."""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
    bits: Annotated[
        bool, typer.Option("--bits", help="run the reference runs here, and compare their models bit for bit")
    ] = False,
) -> None:
    """Show versions, cores and threads, data sets found, and which extras are installed.

    With --bits, twenty small runs are computed here, in a few seconds, and the SHA-256 of their models compared with
    those that came with fedtrip: a machine that agrees computes every experiment of the native engine to the same bits.
    Exit code 1 if something that is needed is missing or cannot be used, or if a bit differs.
    """
    if bits:
        _check_bits(as_json)
        return
    problems: list[str] = []
    found = {
        "fedtrip": __version__,
        "python": f"{platform.python_version()} ({sys.implementation.name})",
        "platform": platform.platform(),
        "packages": _packages(problems),
        "computing": _computing(problems),
        "native": _native(problems),
        "data": _data(problems),
        "extras": {name: _version(package) for name, (package, _) in EXTRAS.items()},
        "problems": problems,
    }
    if as_json:
        print_json(found)
    else:
        _print(found)
    if problems:
        raise typer.Exit(1)


def _check_bits(as_json: bool) -> None:
    """Run all reference runs; exit code 1 if one of them differs."""
    from fedtrip.api.reference_runs import checked, reference_runs
    from fedtrip.errors import UserError
    from fedtrip.native.library import kernels, why_missing

    if kernels() is None:
        raise UserError(
            f"doctor --bits needs the native library, which is missing here: {why_missing()}; accepted: a machine that "
            "has it, since torch's bits are those of one kind of CPU"
        )
    agrees: dict[str, bool] = {}
    with Live("reference runs", len(reference_runs())) as live:
        for name, same in checked():
            agrees[name] = same
            live.advance(name)
    if as_json:
        print_json({"kernels": kernels(), "same_bits": agrees})
    else:
        for name, same in agrees.items():
            out.print(f"  {'[green]same bits[/]' if same else '[red]differs  [/]'}  {escape(name)}", soft_wrap=True)
        differing = sum(not same for same in agrees.values())
        out.print(
            f"{len(agrees)} reference runs with {kernels()} kernels: "
            + (f"{differing} differ from what came with fedtrip" if differing else "all have the same bits"),
            soft_wrap=True,
        )
    if not all(agrees.values()):
        raise typer.Exit(1)


def _packages(problems: list[str]) -> dict[str, str | None]:
    versions = {name: _version(name) for name in NEEDED}
    problems += [f"{name} is not installed" for name, version in versions.items() if version is None]
    return versions


def _version(package: str) -> str | None:
    """An installed package's version; None if it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _computing(problems: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"device": "cpu", "cores": os.cpu_count(), "usable_cores": usable_cores()}
    if util.find_spec("torch") is None:
        return found
    try:
        import torch

        from fedtrip.engines import worker_count

        found |= {"workers": worker_count(None), "threads_per_worker": 1, "torch_threads": torch.get_num_threads()}
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        found["accelerator"] = f"{'none here' if here is None else here} (untested: no GPU was at hand)"
        found["vector_instructions"] = torch.backends.cpu.get_cpu_capability()
    except (ImportError, OSError) as problem:
        problems.append(f"torch cannot be imported: {problem}")
    return found


def _native(problems: list[str]) -> dict[str, str | None]:
    """Which kernels the native library uses here, or why there is none."""
    from fedtrip.errors import UserError
    from fedtrip.native.library import kernels, why_missing

    try:
        return {"kernels": kernels(), "missing": why_missing()}
    except UserError as problem:
        problems.append(str(problem))
        return {"kernels": None, "missing": str(problem)}


def _data(problems: list[str]) -> dict[str, str | None]:
    """Data set → where it is; None if it is not on this machine."""
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.data.locate import find_set
    from fedtrip.errors import UserError

    places: dict[str, str | None] = {}
    try:
        for known in KNOWN_SETS.values():
            folder = find_set(known)
            elsewhere = None if known.files else "comes with fedtrip"
            places[known.name] = str(folder) if folder is not None else elsewhere
    except UserError as problem:
        problems.append(str(problem))
    return places


def _print(found: dict[str, Any]) -> None:
    def line(name: str, value: object) -> None:
        out.print(f"  {name:<16}{escape(str(value))}", soft_wrap=True)

    out.print(f"[bold]fedtrip {found['fedtrip']}[/]", soft_wrap=True)
    line("python", found["python"])
    line("platform", found["platform"])
    for name, version in found["packages"].items():
        line(name, version or "missing")
    out.print("[bold]computing[/]")
    computing = found["computing"]
    line("cores", f"{computing['usable_cores']} of {computing['cores']} usable")
    if "workers" in computing:
        line("engines", f"one process; worker processes, {computing['workers']} by default (--workers), 1 thread each")
        line("vectors", computing["vector_instructions"])
        line("accelerator", f"{computing['accelerator']}; computing is on the CPU unless --device says otherwise")
    native = found["native"]
    line("native library", f"{native['kernels']} kernels" if native["kernels"] else f"none: {native['missing']}")
    out.print("[bold]data[/] [dim](fedtrip data get NAME)[/]")
    for name, place in found["data"].items():
        line(name, place or "not here")
    out.print("[bold]extras[/]")
    for name, version in found["extras"].items():
        line(name, f"{version or 'not installed'}: {EXTRAS[name][1]}")
    for problem in found["problems"]:
        out.print(f"[red]problem:[/] {escape(problem)}", soft_wrap=True)
    if not found["problems"]:
        out.print("no problem found")
