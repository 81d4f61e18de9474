"""``dimargin bench``: an experiment, from data to a page of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dimargin.cli.flags import existing_file, usage_checked
from dimargin.cli.shared import LabelOption, Output, QuietOption, leave_interrupted
from dimargin.estimators.sites import PACKAGES
from dimargin.system.extras import require
from dimargin_bench.experiments import EXPERIMENTS, experiment
from dimargin_bench.experiments.declarations import Cell
from dimargin_bench.experiments.experiment_run import CELLS, Options, Watcher, run_experiment
from dimargin_bench.experiments.outcome import Outcome
from dimargin_bench.experiments.result_files import NAMES, write_results

_A_DAY = 86_400.0  # over which the pace of cells is averaged for the time left


class BenchDisplay(Watcher):
    """A line for every cell that ended, and in a terminal a bar with the time left."""

    def __init__(self, console: Console, out: Output) -> None:
        self._out = out
        self.progress = Progress(
            TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(), console=console, transient=True, disable=out.quiet or not console.is_terminal,
            speed_estimate_period=_A_DAY,
        )  # fmt: skip
        self._task = self.progress.add_task("cells")
        self._missing: set[str] = set()

    def begin(self, n_cells: int) -> None:
        """Start the bar."""
        self.progress.update(self._task, total=n_cells)

    def missing(self, data: str, reason: str, n_cells: int) -> None:
        """Print which data set is missing, once for all parts and numbers of rows, and shorten the bar."""
        if (name := data.partition(",")[0]) not in self._missing:
            self._missing.add(name)
            self._out.say(f"{name} is left out: {reason}")
        self._shorten(n_cells)

    def end(self, cell: Cell, outcome: Outcome, is_known: bool) -> None:
        """Print how a cell ended; one that the cache had shortens the bar, which shows the pace of those that run."""
        found = outcome.metrics
        said = (f"{outcome.status}: {outcome.reason}" if not found
                else f"accuracy {100 * found['accuracy']:.2f}%, {found['seconds']:.3g} s")  # fmt: skip
        self._out.say(f"{cell}: {said}{' (known)' if is_known else ''}")
        if is_known:
            self._shorten(1)
        else:
            self.progress.advance(self._task)

    def _shorten(self, n_cells: int) -> None:
        self.progress.update(self._task, total=(self.progress.tasks[0].total or 0) - n_cells)


def _bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which experiment: {' or '.join(EXPERIMENTS)}.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", file_okay=False, help="Folder for the results.", show_default="bench-NAME"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few rows and one seed: minutes at most.")] = False,
    data: Annotated[
        list[Path] | None, existing_file(help="A data set of one's own, beside the experiment's. May be repeated.")
    ] = None,
    label: LabelOption = None,
    part: Annotated[list[str] | None, typer.Option(help="A part to run; by default all. May be repeated.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A method to run; by default all. May be repeated.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds for a cell; one that takes longer has no result.")] = 600.0,
    jobs: Annotated[int, typer.Option(help="Cells at a time. They share the machine, and take longer.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Run cells again that failed before.")] = False,
    rows: Annotated[
        int | None,
        typer.Option(help="Training rows of a data set at most, in place of the experiment's own numbers."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run an experiment and write a page of results, beside the figures of its paper.

    Example: dimargin bench dcsvm --quick --output results

    Every fit is a cell, in a process of its own; its outcome is stored in the folder, and the same
    command resumes an interrupted run. The exit status is 1 if a method failed. Data sets are read
    from the folder that the environment variable DIMARGIN_DATA names; those that are not there are
    left out.
    """
    out = Output(False, quiet)
    require("dimargin bench", "matplotlib", *PACKAGES)
    with usage_checked():
        chosen = experiment(name)
        options = Options(quick, data or (), label, part or (), only or (), limit, jobs, retry, rows)
        chosen.chosen(options.parts, options.only)
    folder = output or Path(f"bench-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    display = BenchDisplay(out.errors, out)
    try:
        with display.progress:
            results = run_experiment(chosen, folder, options, display)
    except KeyboardInterrupt:
        leave_interrupted(out, f"the cells that have ended are in {folder / CELLS}; the same command resumes")
    write_results(results, folder)
    out.say(f"{folder}: {', '.join(NAMES)}")
    facts: dict[str, Any] = {"cells": len(results.records), "failed": len(results.failures)}
    out.result(facts | ({"missing data": list(results.missing)} if results.missing else {}))
    if results.failures:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(_bench)
