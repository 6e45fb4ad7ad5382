"""`fedtrip data`: which data sets there are, getting them, and checking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedtrip.cli import completion

app = typer.Typer(
    no_args_is_help=True,
    help="List, download and check data sets. Your own data need none of this: name them npz:FILE, npy:FOLDER, "
    "table:FILE, hf:FOLDER or idx:FOLDER.",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        file_okay=False,
        help="The folder that holds the data sets, each in a folder of its own (MNIST/raw, cifar-10-batches-bin, …). "
        "Default: the folder FEDTRIP_DATA names, then your cache folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON for another program.")]


@app.command("list")
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every data set known by name, and whether it is on this machine.

    Any of them can be used at once: what is not here is downloaded when first needed, or beforehand by
    `fedtrip data get NAME`. Your own data are named idx:FOLDER (four idx files as MNIST's), npz:FILE or npy:FOLDER
    (x_train, y_train, x_test, y_test and, if split by client, client_train), table:FILE (CSV or Parquet) or hf:FOLDER
    (saved by Hugging Face's datasets).
    """
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.data.locate import find_set

    rows = []
    for known in KNOWN_SETS.values():
        folder = find_set(known, data_dir)
        rows.append(
            {
                "name": known.name,
                "title": known.title,
                "folder": None if folder is None else str(folder),
                "here": folder is not None or not known.files,
                "download_bytes": sum(download.size for download in known.offered),
                "train": known.train,
                "test": known.test,
                "shape": list(known.shape),
                "classes": known.classes,
                "samples_per_client": known.samples_per_client,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table

    table = Table(title="Data sets known by name", box=box.SIMPLE)
    table.add_column("name", no_wrap=True)
    table.add_column("training + test", no_wrap=True)
    table.add_column("classes", justify="right")
    table.add_column("download", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    for row, known in zip(rows, KNOWN_SETS.values(), strict=True):
        table.add_row(
            known.name,
            f"{known.train:,} + {known.test:,}",
            str(known.classes),
            decimal(sum(download.size for download in known.offered)) if known.offered else "none",
            str(row["folder"] or ("in fedtrip" if row["here"] else "not here")),
        )
    Console().print(table)


@app.command("get")
def get(
    name: Annotated[
        str,
        typer.Argument(
            help="A name from `fedtrip data list`, such as fashion-mnist.", autocompletion=completion.known_sets
        ),
    ],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its publisher, into --data-dir or your cache folder.

    A download that breaks off is resumed the next time, and every file is checked against the published checksum
    before it is put in place. Prints the folder.
    """
    from fedtrip.data.acquire import how_to_get, obtain
    from fedtrip.data.catalog import known_set

    known = known_set(name)
    if not known.files:
        typer.echo(how_to_get(known), err=True)
        return
    typer.echo(str(obtain(known, data_dir)))


@app.command("verify")
def verify_sets(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The set to check. Without a name: every set of which a file is here.",
            autocompletion=completion.known_sets,
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare the files on this machine with their published checksums; exit code 2 if any is missing or wrong."""
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.data.integrity import verify

    checks = {known: verify(known, data_dir) for known in ([name] if name is not None else KNOWN_SETS)}
    if name is None:
        checks = {known: files for known, files in checks.items() if any(file.path for file in files)}
    if as_json:
        rows = [
            {
                "set": known,
                "file": file.name,
                "path": None if file.path is None else str(file.path),
                "status": file.status,
                "detail": file.detail,
            }
            for known, files in checks.items()
            for file in files
        ]
        typer.echo(json.dumps(rows, indent=2))
    else:
        from rich import box
        from rich.console import Console
        from rich.table import Table

        for known, files in checks.items():
            if not files:  # a set that comes with a package
                continue
            table = Table(title=known, title_justify="left", box=box.SIMPLE)
            table.add_column("file", no_wrap=True)
            table.add_column("status", no_wrap=True)
            table.add_column("detail", overflow="fold")
            for file in files:
                table.add_row(file.name, file.status, file.detail)
            Console().print(table)
        if not any(checks.values()):
            typer.echo("There are no files to check.", err=True)
    if not all(file.good for files in checks.values() for file in files):
        raise typer.Exit(2)
