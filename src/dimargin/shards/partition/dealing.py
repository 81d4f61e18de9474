"""Dealing of rows to parts, by a number of each row that is computed where the row is.

A row's number is its index in the order of the keys (`dimargin.shards.keys`) or, where strata shall be dealt evenly,
its index in that order inside its stratum, after all strata before. Every shard counts its rows of each stratum, and
the caller adds these counts up.

A part *represents* the whole data set, so its local problem carries the weight of its own rows as mass (``W_k``), and
coefficients are rescaled by ``W_k / W_merged`` when parts are merged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.system.arrays import Indices


class Strata(Protocol):
    """Rule that gives the stratum of a row, wherever the row is."""

    @property
    def n_strata(self) -> int:
        """Number of strata, at most."""

    def of(self, part: Part) -> tuple[Indices, int]:
        """Return the stratum of every row of a part, and the number of kernel values that it took."""


@dataclass(frozen=True)
class Dealt:
    """Parts that rows have been dealt to."""

    parts: Shards[Part]
    evaluations: int = 0  # number of kernel values that dealing took
    spent: tuple[Shards[Any], ...] = ()  # no longer needed once the parts are there

    def keep(self) -> None:
        """Have the parts computed, so that an engine keeps them, and release what they are made of."""
        self.parts.collect(_asked)
        for handle in self.spent:
            handle.release()


class Partition(ABC):
    """Rule that deals rows into parts whose sizes differ by at most one."""

    @abstractmethod
    def strata(self, rows: Shards[Part], n_rows: int, rng: np.random.Generator) -> tuple[Strata | None, int]:
        """Return strata to deal evenly, crossed with the label, or None for none, and the kernel values computed."""

    def deal(
        self, rows: Shards[Part], n_rows: int, n_parts: int, rng: np.random.Generator, rescale: bool = True
    ) -> Dealt:
        """Deal rows, which follow one another in the order of their keys, to parts that represent the whole.

        Every part has its rows in the order of their keys. With `rescale`, coefficients are those of the whole problem
        if there are any, and become those of the parts. More parts than rows raise ValueError.
        """
        if n_parts > n_rows:
            raise ValueError(
                f"{n_parts} partitions (branching to the power of n_levels) are more than the {n_rows} rows "
                "with positive weight; lower n_levels or branching"
            )
        strata, evaluations = self.strata(rows, n_rows, rng)
        if strata is None:
            return Dealt(rows.shuffle(_by_index, _represent, n_parts, (n_parts, rescale)), evaluations)
        celled = rows.map(_celled, (strata, rows.n_threads))
        counted = celled.collect(_counted)
        counts = np.array([own for _, own, _ in counted])
        # cell after cell, and in a cell shard after shard; round-robin over all of it carries on from cell to cell
        before = np.cumsum(counts.T).reshape(counts.T.shape).T - counts
        offsets = {key: own for (key, _, _), own in zip(counted, before, strict=True)}
        parts = celled.shuffle(_by_cell, _represent, n_parts, (n_parts, rescale, offsets))
        return Dealt(parts, evaluations + sum(spent for _, _, spent in counted), (celled,))


# ---- what shards do ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Celled:
    """Rows with their strata crossed with the label."""

    part: Part
    cells: Indices
    n_cells: int
    evaluations: int


def _celled(part: Part, value: tuple[Strata, int]) -> _Celled:
    strata, n_threads = value
    stratum, evaluations = strata.of(part.with_threads(n_threads))
    labels = part.problem.labels
    codes = labels.argmax(axis=0) if len(labels) > 1 else labels[0] > 0
    return _Celled(part, codes * strata.n_strata + stratum, max(2, len(labels)) * strata.n_strata, evaluations)


def _counted(celled: _Celled, _: None) -> tuple[int, Indices, int]:
    return celled.part.first_index, np.bincount(celled.cells, minlength=celled.n_cells), celled.evaluations


def _by_cell(celled: _Celled, value: tuple[int, bool, dict[int, Indices]]) -> list[tuple[int, Part]]:
    n_parts, _, offsets = value
    order = np.argsort(celled.cells, kind="stable")
    counts = np.bincount(celled.cells, minlength=celled.n_cells)
    numbers = np.empty(len(order), dtype=np.int64)
    shift = offsets[celled.part.first_index] - np.cumsum(counts) + counts
    numbers[order] = np.arange(len(order)) + np.repeat(shift, counts)
    return sent(celled.part, numbers % n_parts, n_parts)


def _by_index(part: Part, value: tuple[int, bool]) -> list[tuple[int, Part]]:
    return sent(part, part.indices % value[0], value[0])


def sent(part: Part, destinations: Indices, n_parts: int) -> list[tuple[int, Part]]:
    """Return pairs of a destination and the rows of a part that go there, for `Shards.shuffle`."""
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


def _asked(part: Part, _: None) -> None:
    """Return nothing: that an engine has to run this task is enough."""
