"""``dimargin datasets list | path | fetch | convert``: the data sets of the papers, by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from dimargin.cli.brief_help import Application
from dimargin.cli.shared import JsonOption, Output, QuietOption
from dimargin.system.printing import printable
from dimargin_bench.datasets import fetch, path
from dimargin_bench.datasets.catalogue import CATALOGUE, Entry, entry_of
from dimargin_bench.datasets.conversion import convert
from dimargin_bench.datasets.places import cache_folder, data_folder, find
from dimargin_bench.datasets.records import read_record, trust

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name that dimargin datasets list prints.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME", help="Names that dimargin datasets list prints.")]


class TransferDisplay:
    """Display of the bytes that have come of a file, silent when `console` is no terminal."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
            TextColumn("left"), TimeRemainingColumn(), console=console, transient=True,
            disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}

    def __call__(self, name: str, done: int, total: int) -> None:
        """Move the bar of a file."""
        if name not in self._tasks:
            self._tasks[name] = self.progress.add_task(name, completed=done, total=total)
        self.progress.update(self._tasks[name], completed=done, total=total)


def _list(as_json: JsonOption = False) -> None:
    """List the data sets: their size, whose experiments have them, and where they are.

    Example: dimargin datasets list
    """
    out = Output(as_json, quiet=False)
    folder, cache = data_folder(), cache_folder()
    if as_json:
        sets = {
            entry.name: {**_facts(entry), "where": _where(entry), "note": entry.note} for entry in CATALOGUE.values()
        }
        return out.result(
            {"data_sets": sets, "data_folder": None if folder is None else str(folder), "cache": str(cache)}
        )
    table = Table("name", "rows", "test", "features", "papers", "where", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in (table.columns[0], table.columns[4]):
        column.no_wrap = True
    for column in table.columns[1:4]:
        column.justify = "right"
    for entry in CATALOGUE.values():
        numbers = [entry.train.rows, entry.test and entry.test.rows, entry.features]
        written = ["" if number is None else f"{number:,}" for number in numbers]
        table.add_row(entry.name, *written, ", ".join(entry.papers), _where(entry))
    out.console.print(table)
    out.say(f"DIMARGIN_DATA: {'not set' if folder is None else folder}\ncache: {cache}")


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "rows": entry.train.rows,
        "test_rows": entry.test and entry.test.rows,
        "features": entry.features,
        "papers": list(entry.papers),
        "addresses": [file.address for file in entry.files if file.address],
        "raw_files": list(entry.raw),
        "also_called": list(entry.printed),
    }


def _where(entry: Entry) -> str:
    """Return where the files of a data set are, in one word if all are in one place."""
    missing = "missing" if entry.train.address else "missing, not public"
    places = [missing if (found := find(file)) is None else trust(file, found) for file in entry.files]
    return places[0] if len(set(places)) == 1 else f"{places[0]}; {entry.files[1].name}: {places[1]}"


def _path(name: NameArgument) -> None:
    """Print where the files of a data set are, a line each: training rows, then test rows.

    Example: dimargin datasets path ijcnn1
    """
    for file in path(name):
        if file is not None:
            print(printable(file) if sys.stdout.isatty() else file)


def _fetch(names: NamesArgument, quiet: QuietOption = False) -> None:
    """Fetch data sets into the cache, unless they are there or in DIMARGIN_DATA.

    Example: dimargin datasets fetch ijcnn1 phishing

    Ctrl-C keeps the bytes that have come, and the next fetch resumes from there. A file without a
    known public checksum is unverified: its first checksum is recorded, and later changes are
    noticed.
    """
    out = Output(False, quiet)
    entries = [entry_of(name) for name in names]  # all of them, before the first is fetched
    for entry in entries:
        display = TransferDisplay(out.errors, quiet)
        try:
            with display.progress:
                fetch(entry.name, display)
        except KeyboardInterrupt:
            out.say("Interrupted: what has come is kept, and the next fetch resumes from there")
            raise typer.Exit(1) from None
        for file in entry.files:
            found = find(file)
            assert found is not None  # else fetch raises
            out.say(f"{found.path}: {trust(file, found)}")
            record = read_record(found.path) if found.in_cache else None
            if record is not None:
                out.say(f"  SHA256 {record.sha256}, recorded because no public checksum is known")


def _convert(
    name: NameArgument,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The public raw files, compressed or not.")],
    output: Annotated[Path | None, typer.Option(help="Folder of the result; by default the cache.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Make the files of a data set that is not public as LIBSVM text from its public raw files.

    Example: dimargin datasets convert kddcup99 kddcup.data.gz corrected.gz

    dimargin datasets list --json names the raw files of each data set, and where they are public.
    """
    out = Output(False, quiet)
    for made, n_rows in convert(entry_of(name), files, output or cache_folder()):
        out.say(f"{made}: {n_rows:,} rows")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    datasets = Application(
        name="datasets", help="List, find, fetch and convert the data sets of the papers.", no_args_is_help=True
    )
    for name, command in (("list", _list), ("path", _path), ("fetch", _fetch), ("convert", _convert)):
        datasets.command(name)(command)
    app.add_typer(datasets)
