"""Declarations of an experiment: parts, each a matrix of data, methods and parameters, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin_bench import papers

Examination = Callable[[Any, Any], Mapping[str, float]]
"""Function of a module that takes a fitted estimator and the `Split`, and returns further metrics."""


@dataclass(frozen=True)
class Sample:
    """A data set by its name, with at most so many training rows, drawn at random, and as many test rows.

    Every seed draws rows of its own and, where there is no test file, a split of its own. Fits that
    take long may have the first `max_seeds` of the part's seeds only. Rows of a test file that are
    `joined` with the training rows are split with them. With `train_rows` so many rows of the
    training file are for training, and its others for the test, whether there is a test file or not.
    """

    name: str
    max_rows: int | None = None
    max_seeds: int | None = None
    joined: bool = False
    train_rows: int | None = None

    def __str__(self) -> str:
        rows = self.max_rows or self.train_rows
        return self.name if rows is None else f"{self.name}, {rows:,} rows"


@dataclass(frozen=True)
class Method:
    """A way to get a classifier: a column of the matrix.

    Parameters
    ----------
    name : str
        As tables and ``--only`` have it.
    make : callable
        A function of a module, given the parameters of a cell and its ``random_state`` by name,
        that returns an estimator with ``fit`` and ``predict``. It is called in the process of the
        cell, which finds it by its module.
    about : str
        What it is, in a sentence.
    threads : {"all", "one"}, default="all"
        How many it computes on, for the page.
    simulated : str, optional
        What of it is simulated, such as "the network"; the page marks it. By default nothing is.
    problem : str, optional
        Name of the problem that it solves, where methods of a part solve several: objectives are
        compared within one.
    line : str, optional
        Name of the line of a picture that joins its points with those of other methods; by default
        it has its own.
    requires : str, optional
        Distribution without which its cells are left out, which is no failure.
    ends_early : bool, default=False
        Whether it is meant to end before its tolerance is met, so that a warning of that says
        nothing new.
    """

    name: str
    make: Callable[..., Any]
    about: str
    threads: str = "all"
    simulated: str = ""
    problem: str = ""
    line: str = ""
    requires: str = ""
    ends_early: bool = False


@dataclass(frozen=True)
class Cell:
    """One fit: a method with its parameters and a seed, on a data set."""

    data: str
    method: Method
    parameters: Mapping[str, Any]  # values that JSON has
    seed: int = 0
    case: str = ""
    examine: Examination | None = None

    def make(self) -> Any:
        """Make the estimator."""
        return self.method.make(**self.parameters, random_state=self.seed)

    def __str__(self) -> str:
        case = f" ({self.case})" if self.case else ""
        return f"{self.data}, {self.method.name}{case}, seed {self.seed}"


@dataclass(frozen=True)
class Table:
    """Some metrics of all methods, with several cases a row for each of a method's.

    Parameters
    ----------
    title : str
    metrics : sequence of str
        Keys of `METRICS`.
    published : mapping of (data, method, metric) to float or Marked
        Figures of the paper, in the unit of the metric (an accuracy of 1 is 100%), for the column
        beside ours, and the ratio of ours to theirs. A figure of one case only has the name "METHOD,
        CASE".
    note : str, optional
        What has to be known to read the table.
    rows : {"method", "data", "metric"}
        A table for each data set, or one for all, with rows of each; or a table for each data set
        with a row for each metric.
    """

    title: str
    metrics: Sequence[str]
    published: Mapping[tuple[str, str, str], papers.Figure] = field(default_factory=dict)
    note: str = ""
    rows: Literal["method", "data", "metric"] = "method"


@dataclass(frozen=True)
class Comparison:
    """Medians of one metric over the seeds, of every method and data set or case.

    Parameters
    ----------
    title : str
    metric : str
    rows : {"data", "case", "method", "total"}
        A row for each data set and case, in one table, or for each case, in a table for each data
        set, with a column for each method. Or a row for each method and a column for each case, in
        a table for each data set: a page shows many methods better so. Or a row for each data set,
        with the sums over its cases.
    relative_to : str, optional
        Method by whose figure those of the others are divided, in brackets.
    quotients : bool, default=False
        Whether only how many times the figure of `relative_to` the others are is shown, as a
        speed-up; those of the paper have the metric "speed_up".
    total : bool, default=False
        Whether the sums are there, too.
    note : str, optional
    published : mapping of (data, method, metric) to float or Marked
        Figures of the paper, as those of `Table`, which stand in brackets with the ratio of ours to
        theirs.
    """

    title: str
    metric: str
    rows: Literal["data", "case", "method", "total"]
    relative_to: str = ""
    quotients: bool = False
    total: bool = False
    note: str = ""
    published: Mapping[tuple[str, str, str], papers.Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One metric against another, a point for every cell, a picture for each data set.

    Parameters
    ----------
    title : str
    x, y : str
        Keys of `METRICS`. With "rows" as x, the points are samples of one data set, a picture for
        each set and case.
    note : str, optional
    joined : bool, default=False
        Whether the points of a line are joined in the order of x; they are medians over the seeds
        then.
    relative_to : str, optional
        Method by whose y the others' are divided, at the same seed, sample and case.
    below_best : bool, default=False
        Whether y is how far below the largest of the picture a figure is, relative to it.
    beside : sequence of str
        Further metrics on the axis of y, which every method has a line of its own for.
    cases : sequence of str
        Cases whose points are drawn, by default those of all.
    linear : bool, default=False
        Whether the axis of y is linear, whatever the metric's usual scale.
    """

    title: str
    x: str
    y: str
    note: str = ""
    joined: bool = False
    relative_to: str = ""
    below_best: bool = False
    beside: Sequence[str] = ()
    cases: Sequence[str] = ()
    linear: bool = False


@dataclass(frozen=True)
class Curves:
    """Several metrics of every method over a number, as medians over the seeds, a picture for each data set.

    Parameters
    ----------
    title : str
    x, y : str
        Words of the axes, which are logarithmic.
    curves : mapping of str to mapping of float to str
        Names of a method's curves, and of each the metrics by their x.
    published : mapping of str to (float, float)
        Points of the paper, by what they are.
    note : str, optional
    errors : mapping of str to str
        Of curves that are replays, the metric of their error on two cores, which gives them the band
        of `dimargin_bench.experiments.replay.error_band`.
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Mapping[float, str]]
    published: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Traces:
    """Traces of the sites of a run: a line for each site or for each name, a picture for each data set and method.

    It is of the first seed that has the trace.

    Parameters
    ----------
    title : str
    trace : str
        Key of the estimator's ``traces_``. There it has a dict with ``x`` (list of m numbers),
        ``lines`` (lists of m numbers), and either ``level`` (a number that lines may come to) or
        ``names`` (those of the lines; without them each is of a site).
    x, y : str
        Words of the axes.
    level : str, optional
        What the level is.
    note : str, optional
    logarithmic : bool, default=False
        Whether x is.
    pillars : bool, default=False
        Whether points stand on pillars in place of being joined.
    boxes : bool, default=False
        Whether box plots of the sites' values stand at some of the points, with whiskers from the
        smallest to the largest.
    """

    title: str
    trace: str
    x: str
    y: str
    level: str = ""
    note: str = ""
    logarithmic: bool = False
    pillars: bool = False
    boxes: bool = False


@dataclass(frozen=True)
class Part:
    """A matrix of data, methods, parameters and seeds, and how it is shown: a table or a figure of a paper.

    Parameters
    ----------
    name : str
        As ``--part`` has it.
    title, about : str
        Heading of the section, and what it shows, in a sentence or some.
    data : sequence of Sample
    methods : sequence of Method
    parameters : callable
        Function of the name of a data set, and of the method's, that returns its parameters. A name
        that is not in `data` is that of a file of the user's.
    of_rows : callable, optional
        Function of the name of a data set, of the method's, and of the number of training rows, that
        returns the parameters which depend on that number.
    cases : mapping of str to mapping
        Names of cases, with the parameters in which they differ. By default there is one, without a
        name.
    tables : sequence of Table and Comparison
    figures : sequence of Figure, Curves and Traces
    seeds : sequence of int, default=(0, 1, 2)
    quick_data : sequence of Sample
        Data sets of a quick run, which takes the first of the seeds only.
    quick_cases : sequence of str
        Cases of a quick run, by default all.
    takes_files : bool, default=False
        Whether files of the user's are among the data.
    examine : callable, optional
        Further metrics of a fitted estimator.
    answer : callable, optional
        Function of the part's `PartResults` that says what they show in a sentence, or in one on
        each line.
    """

    name: str
    title: str
    about: str
    data: Sequence[Sample]
    methods: Sequence[Method]
    parameters: Callable[[str, str], Mapping[str, Any]]
    of_rows: Callable[[str, str, int], Mapping[str, Any]] = lambda data, method, n_rows: {}
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    tables: Sequence[Table | Comparison] = ()
    figures: Sequence[Figure | Curves | Traces] = ()
    seeds: Sequence[int] = (0, 1, 2)
    quick_data: Sequence[Sample] = ()
    quick_cases: Sequence[str] = ()
    takes_files: bool = False
    examine: Examination | None = None
    answer: Callable[[Any], str] | None = None

    def cells(self, sample: Sample, quick: bool = False, only: Iterable[str] = ()) -> list[Cell]:
        """Return the cells of a data set, seed by seed, so that an interrupted run has something of every method."""
        chosen = set(only)
        return [
            Cell(str(sample), method, {**self.parameters(sample.name, method.name), **values}, seed, case, self.examine)
            for seed in self.seeds[: 1 if quick else sample.max_seeds]
            for case, values in self.cases.items()
            if not (quick and self.quick_cases) or case in self.quick_cases
            for method in self.methods
            if not chosen or method.name in chosen
        ]


@dataclass(frozen=True)
class Experiment:
    """Parts that belong together, such as all there is of a paper.

    Parameters
    ----------
    name : str
        As ``dimargin bench`` has it.
    title, about : str
        Heading of the page, and a sentence below it.
    source : str
        The paper, or an empty text.
    parts : sequence of Part
    quick_rows : int, default=3000
        Training rows of a quick run, and test rows, at most.
    libraries : sequence of str
        Distributions whose versions decide the results, beside dimargin, numpy, scipy and
        scikit-learn.
    """

    name: str
    title: str
    about: str
    source: str
    parts: Sequence[Part]
    quick_rows: int = 3000
    libraries: Sequence[str] = ()

    @property
    def methods(self) -> list[Method]:
        """Methods of all parts, one of each name."""
        return list({method.name: method for part in self.parts for method in part.methods}.values())

    def chosen(self, parts: Iterable[str] = (), only: Iterable[str] = ()) -> list[Part]:
        """Return the parts of these names, by default all, that have one of the methods.

        Raises
        ------
        ValueError
            For a name that is not that of a part, or of a method.
        """
        self._check("parts", [part.name for part in self.parts], parts)
        self._check("methods", [method.name for method in self.methods], only)
        names, methods = set(parts), set(only)
        return [
            part
            for part in self.parts
            if (not names or part.name in names)
            and (not methods or not methods.isdisjoint(method.name for method in part.methods))
        ]

    def _check(self, what: str, known: Sequence[str], given: Iterable[str]) -> None:
        if unknown := sorted(set(given) - set(known)):
            raise ValueError(f"{self.name} has the {what} {', '.join(known)}, got {', '.join(unknown)}")
