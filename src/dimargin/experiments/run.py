"""A run of an experiment: its data sets one by one, the cells of each in processes, or from the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
import numpy as np

from dimargin.experiments.cache import Cache, described
from dimargin.experiments.data import MissingDataError, Split, load, load_file
from dimargin.experiments.declarations import Cell, Experiment
from dimargin.experiments.environment import environment
from dimargin.experiments.outcome import Outcome
from dimargin.experiments.processes import run_cells

CELLS = "cells"  # folder of the cache


@dataclass(frozen=True)
class Options:
    """Choices of who runs an experiment.

    Parameters
    ----------
    quick : bool, default=False
        Few rows, one seed.
    files : sequence of Path
        Data sets of one's own, beside those of the experiment.
    label : str, optional
        Label column of these files.
    only : sequence of str
        Names of the methods that are run, by default all.
    limit : float, default=3600
        Seconds of a cell.
    jobs : int, default=1
        Cells at a time. With more than one they share the machine, and take longer.
    retry : bool, default=False
        Whether cells are run again that failed before.
    """

    quick: bool = False
    files: Sequence[Path] = ()
    label: str | None = None
    only: Sequence[str] = ()
    limit: float = 3600.0
    jobs: int = 1
    retry: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        if not self.limit > 0:
            raise ValueError(f"limit must be a number of seconds above 0, got {self.limit}")
        if self.jobs < 1:
            raise ValueError(f"jobs must be 1 or more, got {self.jobs}")


@dataclass(frozen=True)
class DataFacts:
    """Facts about a data set, as it was used."""

    name: str
    rows: int
    test_rows: int
    features: int
    classes: int
    digest: str


@dataclass(frozen=True)
class Record:
    """A cell, its estimator as text, and its outcome."""

    cell: Cell
    estimator: str
    outcome: Outcome


@dataclass
class Results:
    """All that a run found, in the order of the declarations."""

    experiment: Experiment
    options: Options
    environment: dict[str, str]
    data: list[DataFacts] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # data sets that are not here, and why

    @property
    def failures(self) -> list[Record]:
        """The cells without a result."""
        return [record for record in self.records if record.outcome.failed]


class Watcher:
    """Observer of a run; by default it does nothing."""

    def begin(self, n_cells: int) -> None:
        """Take note of the number of cells."""

    def missing(self, data: str, reason: str, n_cells: int) -> None:
        """Take note of a data set that is not here, and of how many cells it has."""

    def end(self, cell: Cell, outcome: Outcome, is_known: bool) -> None:
        """Take note of the outcome of a cell, and of whether the cache had it."""


def run_experiment(experiment: Experiment, folder: Path, options: Options, watcher: Watcher | None = None) -> Results:
    r"""Run the cells of an experiment, each in a process of its own, but for those whose outcome is in the cache.

    A method that fails, is killed or exceeds the limit has an outcome that says so. The outcome of every cell is in the
    cache as soon as there is one: who interrupts a run, and starts it again with the same folder, goes on.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Its folder ``cells`` is the cache.
    options : Options
    watcher : Watcher, optional
        Is told of every cell.

    Returns
    -------
    Results

    Raises
    ------
    ValueError
        For a method that is not the experiment's, two data sets of one name, or a damaged file in the cache.
    DataFileError
        For a file of data that cannot be read; before any cell is run if it is the user's own.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from dimargin.experiments import experiment
    >>> folder = Path(mkdtemp())
    >>> rows = "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(70))
    >>> _ = (folder / "mine.csv").write_text(f"a,b,class\n{rows}")
    >>> trial = replace(experiment("dcsvm"), quick_data=())  # on that file alone
    >>> options = Options(quick=True, files=[folder / "mine.csv"], only=["svc"])
    >>> results = run_experiment(trial, folder, options)
    >>> [(str(record.cell), record.outcome.status) for record in results.records]
    [('mine.csv, svc, seed 0', 'done')]
    """
    watcher = watcher or Watcher()
    results = Results(experiment, options, environment(experiment.libraries, options.jobs))
    cache = Cache(folder / CELLS, results.environment)
    sources = _sources(experiment, options)
    cells = {name: experiment.cells(name, options.quick, options.only) for name in sources}
    watcher.begin(sum(map(len, cells.values())))
    for name, source in sources.items():
        try:
            split = source()
        except MissingDataError as error:
            results.missing[name] = str(error)
            watcher.missing(name, str(error), len(cells[name]))
            continue
        facts = _facts(name, split)
        results.data.append(facts)
        outcomes = dict(_outcomes(cells[name], split, facts.digest, cache, options, watcher))
        results.records += [Record(cell, described(cell), outcomes[k]) for k, cell in enumerate(cells[name])]
    return results


def _sources(experiment: Experiment, options: Options) -> dict[str, partial[Split]]:
    """Return how to load each data set: first the user's own, whose mistakes are seen at once."""
    names = experiment.quick_data if options.quick else experiment.data
    most_rows = experiment.quick_rows if options.quick else None
    sources = {path.name: partial(load_file, path, most_rows, options.label) for path in options.files}
    if len(sources) < len(options.files) or set(sources) & set(names):
        raise ValueError(f"data sets must have different names, got {', '.join(p.name for p in options.files)} "
                         f"beside {', '.join(names)}")  # fmt: skip
    return sources | {name: partial(load, name, most_rows) for name in names}


def _facts(name: str, split: Split) -> DataFacts:
    (rows, features), classes = split.X.shape, len(np.unique(split.y))
    return DataFacts(name, rows, len(split.y_test), features, classes, split.digest)


def _outcomes(
    cells: Sequence[Cell], split: Split, digest: str, cache: Cache, options: Options, watcher: Watcher
) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcomes of cells with their places, those of the cache first."""
    to_run = []
    for k, cell in enumerate(cells):
        outcome = cache.find(cell, digest, options.limit, options.retry)
        if outcome is None:
            to_run.append(k)
            continue
        watcher.end(cell, outcome, True)
        yield k, outcome
    if not to_run:
        return
    with TemporaryDirectory(prefix="dimargin-") as folder:
        path = str(Path(folder, "split"))
        joblib.dump(split, path)
        with closing(run_cells([cells[k] for k in to_run], path, options.limit, options.jobs)) as found:
            for place, outcome in found:
                k = to_run[place]
                cache.store(cells[k], digest, options.limit, outcome)
                watcher.end(cells[k], outcome, False)
                yield k, outcome
