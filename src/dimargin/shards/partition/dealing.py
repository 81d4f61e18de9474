"""Assignment of rows to parts, by a number of each row that its shard computes.

A row's number is its index in the order of the keys (`dimargin.shards.keys`). To divide strata
evenly, rows are numbered stratum by stratum, in the order of the keys within each: every shard
counts its rows of each stratum, and the caller sums these counts.

A part *represents* the whole data set, so its local problem has the weight of its own rows as mass
(``W_k``), and coefficients are rescaled by ``W_k / W_merged`` when parts are merged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.system.arrays import Indices


class Strata(Protocol):
    """Rule that gives the stratum of any row."""

    @property
    def n_strata(self) -> int:
        """Largest number of strata."""

    def of(self, part: Part) -> tuple[Indices, int]:
        """Return the stratum of each row of a part, and the number of kernel values computed."""


@dataclass(frozen=True)
class Dealt:
    """Parts to which rows have been assigned."""

    parts: Shards[Part]
    evaluations: int = 0  # number of kernel values that the assignment took
    spent: tuple[Shards[Any], ...] = ()  # shards that are not needed once the parts exist

    def keep(self) -> None:
        """Compute the parts, so that an engine keeps them, and release their sources."""
        self.parts.collect(_no_result)
        for handle in self.spent:
            handle.release()


class Partition(ABC):
    """Rule that assigns rows to parts whose sizes differ by at most one.

    Attributes
    ----------
    crosses_labels : bool
        Whether every stratum is divided by the labels of its rows.
    """

    crosses_labels: ClassVar[bool] = True

    @abstractmethod
    def strata(self, rows: Shards[Part], n_rows: int, rng: np.random.Generator) -> tuple[Strata | None, int]:
        """Return strata (or None) to divide evenly, and the number of kernel values computed."""

    def deal(
        self, rows: Shards[Part], n_rows: int, n_parts: int, rng: np.random.Generator, rescale: bool = True
    ) -> Dealt:
        """Assign rows, which are in the order of their keys, to parts that represent the whole.

        Parts keep the order of the keys. With `rescale`, coefficients of the whole problem, if any,
        are rescaled to those of the parts. More parts than rows raise ValueError.
        """
        if n_parts > n_rows:
            raise ValueError(
                f"{n_parts} partitions (branching to the power of n_levels) are more than the {n_rows} rows "
                "with positive weight; lower n_levels or branching"
            )
        strata, evaluations = self.strata(rows, n_rows, rng)
        if strata is None:
            return Dealt(rows.shuffle(_split_by_index, _represent, n_parts, (n_parts, rescale)), evaluations)
        celled = rows.map(_find_cells, (strata, rows.n_threads, self.crosses_labels))
        counted = celled.collect(_count_cells)
        counts = np.array([own for _, own, _ in counted])
        # Rows are numbered cell by cell, and shard by shard within a cell.
        before = np.cumsum(counts.T).reshape(counts.T.shape).T - counts
        offsets = {key: own for (key, _, _), own in zip(counted, before, strict=True)}
        parts = celled.shuffle(_split_by_cell, _represent, n_parts, (n_parts, rescale, offsets))
        return Dealt(parts, evaluations + sum(spent for _, _, spent in counted), (celled,))


# ---- tasks of shards -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cells:
    """Rows with their cells: strata, mostly crossed with labels."""

    part: Part
    cells: Indices
    n_cells: int
    evaluations: int


def _find_cells(part: Part, value: tuple[Strata, int, bool]) -> _Cells:
    strata, n_threads, crosses_labels = value
    stratum, evaluations = strata.of(part.with_threads(n_threads))
    labels = part.problem.labels
    if not crosses_labels:
        return _Cells(part, stratum, strata.n_strata, evaluations)
    codes = labels.argmax(axis=0) if len(labels) > 1 else labels[0] > 0
    return _Cells(part, codes * strata.n_strata + stratum, max(2, len(labels)) * strata.n_strata, evaluations)


def _count_cells(rows: _Cells, _: None) -> tuple[int, Indices, int]:
    return rows.part.first_index, np.bincount(rows.cells, minlength=rows.n_cells), rows.evaluations


def _split_by_cell(rows: _Cells, value: tuple[int, bool, dict[int, Indices]]) -> list[tuple[int, Part]]:
    n_parts, _, offsets = value
    order = np.argsort(rows.cells, kind="stable")
    counts = np.bincount(rows.cells, minlength=rows.n_cells)
    numbers = np.empty(len(order), dtype=np.int64)
    shift = offsets[rows.part.first_index] - np.cumsum(counts) + counts
    numbers[order] = np.arange(len(order)) + np.repeat(shift, counts)
    return sent(rows.part, numbers % n_parts, n_parts)


def _split_by_index(part: Part, value: tuple[int, bool]) -> list[tuple[int, Part]]:
    return sent(part, part.indices % value[0], value[0])


def sent(part: Part, destinations: Indices, n_parts: int) -> list[tuple[int, Part]]:
    """Return pairs of a destination and a part's rows for it, for `Shards.shuffle`."""
    bounds = np.cumsum(np.bincount(destinations, minlength=n_parts))[:-1]
    groups = np.split(np.argsort(destinations, kind="stable"), bounds)
    return [(index, part.take(rows, part.problem.mass)) for index, rows in enumerate(groups) if len(rows)]


def _represent(pieces: Sequence[Part], value: tuple[Any, ...]) -> Part:
    """Join pieces into a part that represents the whole by the weight of its rows."""
    mass = float(sum(piece.problem.weights.sum() for piece in pieces))
    part = Part.joined(pieces, mass).in_order()
    if part.dual is None or not value[1]:
        return part
    return replace(part, dual=part.dual * (part.problem.total / mass))


def _no_result(part: Part, _: None) -> None:
    """Return nothing; running the task makes an engine compute the part."""
