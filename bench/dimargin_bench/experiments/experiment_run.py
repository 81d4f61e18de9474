"""A run of an experiment: part by part and data set by data set, cells in processes or from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from dimargin_bench.datasets.access import DataRows
from dimargin_bench.datasets.access import load as load_by_name
from dimargin_bench.experiments.cache import Cache, described
from dimargin_bench.experiments.declarations import Cell, Experiment, Part, Sample
from dimargin_bench.experiments.environment import environment, installed
from dimargin_bench.experiments.outcome import NOT_INSTALLED, Outcome
from dimargin_bench.experiments.processes import run_cells
from dimargin_bench.experiments.split_data import MissingDataError, Split, load, load_file, split_rows

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
    parts : sequence of str
        Names of the parts that are run, by default all.
    only : sequence of str
        Names of the methods that are run, by default all.
    limit : float, default=600
        Seconds of a cell.
    jobs : int, default=1
        Cells at a time. With more than one they share the machine, and take longer.
    retry : bool, default=False
        Whether cells are run again that failed before.
    rows : int, optional
        Training rows of a data set at most, and test rows, in place of the experiment's own
        numbers.
    """

    quick: bool = False
    files: Sequence[Path] = ()
    label: str | None = None
    parts: Sequence[str] = ()
    only: Sequence[str] = ()
    limit: float = 600.0
    jobs: int = 1
    retry: bool = False
    rows: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        if not self.limit > 0:
            raise ValueError(f"limit must be a number of seconds above 0, got {self.limit}")
        if self.jobs < 1:
            raise ValueError(f"jobs must be 1 or more, got {self.jobs}")
        if self.rows is not None and self.rows < 1:
            raise ValueError(f"rows must be 1 or more, got {self.rows}")


@dataclass(frozen=True)
class DataFacts:
    """Facts about a data set, as it was used."""

    name: str  # as cells have it
    set_name: str
    rows: int
    test_rows: int
    features: int
    classes: int
    digest: str
    scaling: str = ""  # the range that features were scaled to


@dataclass(frozen=True)
class Record:
    """A cell, its estimator as text, and its outcome."""

    cell: Cell
    estimator: str
    outcome: Outcome


@dataclass
class PartResults:
    """Results of a part, in the order of its declaration."""

    part: Part
    data: list[DataFacts] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # data sets that are not here, and why

    def of(self, data: str) -> list[Record]:
        """Return the records of a data set."""
        return [record for record in self.records if record.cell.data == data]


@dataclass
class Results:
    """All that a run found."""

    experiment: Experiment
    options: Options
    environment: dict[str, str]
    parts: list[PartResults] = field(default_factory=list)

    @property
    def records(self) -> list[Record]:
        """The records of all parts."""
        return [record for found in self.parts for record in found.records]

    @property
    def data(self) -> list[DataFacts]:
        """The data sets of all parts, each once."""
        return list({facts.name: facts for found in self.parts for facts in found.data}.values())

    @property
    def missing(self) -> dict[str, str]:
        """The data sets that are not here, and why."""
        return {name: reason for found in self.parts for name, reason in found.missing.items()}

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

    A method that fails, is killed or exceeds the limit has an outcome that says so. The outcome of
    every cell is stored at once: an interrupted run resumes when it is started again with the same
    folder.

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
        For a part or a method that is not the experiment's, files that no part takes, two data sets
        of one name, or a damaged file in the cache.
    DataFileError
        For a file of data that cannot be read; before any cell is run if it is the user's own.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from dimargin_bench.experiments import experiment
    >>> folder = Path(mkdtemp())
    >>> rows = "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(70))
    >>> _ = (folder / "mine.csv").write_text(f"a,b,class\n{rows}")
    >>> declared = experiment("dcsvm")
    >>> table_2 = next(part for part in declared.parts if part.name == "table-2")
    >>> trial = replace(declared, parts=[replace(table_2, quick_data=())])  # on that file alone
    >>> options = Options(quick=True, files=[folder / "mine.csv"], only=["svc"])
    >>> results = run_experiment(trial, folder, options)
    >>> [(str(record.cell), record.outcome.status) for record in results.records]
    [('mine.csv, svc, seed 0', 'done')]
    """
    watcher = watcher or Watcher()
    results = Results(experiment, options, environment(experiment.libraries, options.jobs))
    cache = Cache(folder / CELLS, results.environment)
    read = lru_cache(maxsize=2)(load_by_name)  # Parts alternate between few data sets.
    parts = experiment.chosen(options.parts, options.only)
    own, quick_rows = _own_files(parts, options), experiment.quick_rows if options.quick else None
    work = [(part, _sources(part, own, quick_rows, options.rows, read)) for part in parts]
    watcher.begin(sum(len(_cells(part, sample, options)) for part, sources in work for sample in sources))
    for part, sources in work:
        if not sources:  # a quick run has no data for it
            continue
        found = PartResults(part)
        results.parts.append(found)
        for sample, source in sources.items():
            cells = _cells(part, sample, options)
            try:
                for seed, own_cells in groupby(cells, attrgetter("seed")):
                    found.records += _records(list(own_cells), source(seed), sample, found, cache, options, watcher)
            except MissingDataError as error:
                found.missing[sample.name] = str(error)
                watcher.missing(str(sample), str(error), len(cells))
    return results


def _records(
    cells: Sequence[Cell],
    split: Split,
    sample: Sample,
    found: PartResults,
    cache: Cache,
    options: Options,
    watcher: Watcher,
) -> list[Record]:
    """Return the records of the cells of one seed, and note the facts of the first seed's rows."""
    facts = _facts(sample, split)
    if all(known.name != facts.name for known in found.data):
        found.data.append(facts)
    added = [found.part.of_rows(sample.name, cell.method.name, facts.rows) for cell in cells]
    cells = [replace(cell, parameters={**cell.parameters, **more}) for cell, more in zip(cells, added, strict=True)]
    outcomes = dict(_outcomes(cells, split, facts.digest, cache, options, watcher))
    return [Record(cell, described(cell), outcomes[k]) for k, cell in enumerate(cells)]


def _cells(part: Part, sample: Sample, options: Options) -> list[Cell]:
    return part.cells(sample, options.quick, options.only)


def _own_files(parts: Sequence[Part], options: Options) -> dict[str, tuple[Any, NDArray[Any]]]:
    """Load the user's files, whose mistakes are seen before any cell is run."""
    names = [path.name for path in options.files]
    if names and not any(part.takes_files for part in parts):
        raise ValueError(f"none of the parts {', '.join(part.name for part in parts)} takes data of one's own, "
                         f"got {', '.join(names)}")  # fmt: skip
    theirs = sorted({sample.name for part in parts for sample in part.data})
    if len(set(names)) < len(names) or set(names) & set(theirs):
        raise ValueError(f"data sets must have different names, got {', '.join(names)} beside {', '.join(theirs)}")
    return {path.name: load_file(path, label=options.label) for path in options.files}


def _sources(
    part: Part,
    own: Mapping[str, tuple[Any, NDArray[Any]]],
    quick_rows: int | None,
    max_rows: int | None,
    read: Callable[[str], DataRows],
) -> dict[Sample, Callable[[int], Split]]:
    """Return how to split each data set by a seed, the user's own first; with `quick_rows` those of a quick run.

    With `max_rows`, samples of one data set that differ in their rows alone are one.
    """
    sources: dict[Sample, Callable[[int], Split]] = {}
    for name, rows in own.items() if part.takes_files else ():
        sources[Sample(name)] = partial(split_rows, *rows, max_rows or quick_rows)
    samples = part.data if quick_rows is None else part.quick_data
    if max_rows is not None:
        samples = list({sample.name: replace(sample, max_rows=max_rows) for sample in samples}.values())
    for sample in samples:
        n = sample.max_rows or quick_rows
        sources[sample] = partial(_load, sample, n, read)
    return sources


def _load(sample: Sample, max_rows: int | None, read: Callable[[str], DataRows], seed: int) -> Split:
    return load(sample.name, max_rows, read, seed, sample.joined, sample.train_rows)


def _facts(sample: Sample, split: Split) -> DataFacts:
    (rows, features), classes = split.X.shape, len(np.unique(split.y))
    return DataFacts(str(sample), sample.name, rows, len(split.y_test), features, classes, split.digest, split.scaling)


def _outcomes(
    cells: Sequence[Cell], split: Split, digest: str, cache: Cache, options: Options, watcher: Watcher
) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcomes of cells with their places, first those of the cache and those that cannot be run."""
    to_run = []
    for k, cell in enumerate(cells):
        outcome = _not_installed(cell) or cache.find(cell, digest, options.limit, options.retry)
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


def _not_installed(cell: Cell) -> Outcome | None:
    needed = cell.method.requires
    return Outcome(NOT_INSTALLED, reason=needed) if needed and not installed(needed) else None
