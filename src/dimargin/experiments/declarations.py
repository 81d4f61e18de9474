"""Declarations of an experiment: data, methods, the cells of the matrix, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """A way to get a classifier: a column of the matrix.

    Parameters
    ----------
    name : str
        As tables and ``--only`` have it.
    make : callable
        A function of a module, given the parameters of a cell and its ``random_state`` by name, that returns an
        estimator with ``fit`` and ``predict``. It is called in the process of the cell, which finds it by its module.
    about : str
        What it is, in a sentence.
    threads : {"all", "one"}, default="all"
        How many it computes on, for the page.
    simulated : str, optional
        What of it is simulated, such as "the network"; the page marks it. By default nothing is.
    """

    name: str
    make: Callable[..., Any]
    about: str
    threads: str = "all"
    simulated: str = ""


@dataclass(frozen=True)
class Cell:
    """One fit: a method with its parameters and a seed, on a data set."""

    data: str
    method: Method
    parameters: Mapping[str, Any]  # values that JSON has
    seed: int = 0

    def make(self) -> Any:
        """Make the estimator."""
        return self.method.make(**self.parameters, random_state=self.seed)

    def __str__(self) -> str:
        return f"{self.data}, {self.method.name}, seed {self.seed}"


@dataclass(frozen=True)
class Table:
    """Some metrics of all methods, a table for each data set.

    Parameters
    ----------
    title : str
    metrics : sequence of str
        Keys of `METRICS`.
    published : mapping of (data, method, metric) to float
        Figures of the paper, in the unit of the metric (an accuracy of 1 is 100%), for the column beside ours.
    note : str, optional
        What has to be known to compare them.
    """

    title: str
    metrics: Sequence[str]
    published: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """One metric against another, a point for every cell, a picture for each data set."""

    title: str
    x: str
    y: str
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A matrix of data, methods, parameters and seeds, and how it is shown: all there is of a paper.

    Parameters
    ----------
    name : str
        As ``dimargin bench`` has it.
    title, about : str
        Heading of the page, and a sentence below it.
    source : str
        The paper.
    data : sequence of str
        Names of the data sets.
    methods : sequence of Method
    parameters : callable
        Function of the name of a data set, and of the method's, that returns its parameters. A name that is not in
        `data` is that of a file of the user's.
    tables, figures : sequence of Table and of Figure
    seeds : sequence of int, default=(0, 1, 2)
    quick_data : sequence of str
        Data sets of a quick run, which takes the first of the seeds only.
    quick_rows : int, default=3000
        Training rows of a quick run, and test rows, at most.
    libraries : sequence of str
        Distributions whose versions decide the results, beside dimargin, numpy, scipy and scikit-learn.
    """

    name: str
    title: str
    about: str
    source: str
    data: Sequence[str]
    methods: Sequence[Method]
    parameters: Callable[[str, str], Mapping[str, Any]]
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    seeds: Sequence[int] = (0, 1, 2)
    quick_data: Sequence[str] = ()
    quick_rows: int = 3000
    libraries: Sequence[str] = ()

    def cells(self, data: str, quick: bool = False, only: Iterable[str] = ()) -> list[Cell]:
        """Return the cells of a data set, seed by seed, so that an interrupted run has something of every method.

        Raises
        ------
        ValueError
            If a name in `only` is not that of a method.
        """
        names = [method.name for method in self.methods]
        chosen = set(only) or set(names)
        if unknown := sorted(chosen - set(names)):
            raise ValueError(f"{self.name} has the methods {', '.join(names)}, got {', '.join(unknown)}")
        return [
            Cell(data, method, self.parameters(data, method.name), seed)
            for seed in (self.seeds[:1] if quick else self.seeds)
            for method in self.methods
            if method.name in chosen
        ]
