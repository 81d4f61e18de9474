"""Solver of many small pairs of classes in one call, to rounding on float64 kernel values.

The Python work for one pair takes a hundred times as long as solving ten rows, so one call handles
many pairs. When time runs out, a pair is solved on few rows of each class. The coefficients are
feasible for all rows, and the certificate, as for every pair, is that of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.strategies.pair_results import FoundPairs
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class PairSizes:
    """Sizes that decide how pairs of classes are solved; they do not depend on the data."""

    values_at_once: int = 2**22
    """Most kernel values of the pairs of one call, so that a call takes a small part of a second."""
    rows_at_once: int = 2**14
    """Most rows of the pairs of one call, so that arrays of rows stay in the second-level cache."""
    few_rows: int = 16
    """Rows per class of a rough machine, which takes 25 microseconds."""
    last_rows: int = 4
    """Rows per class of a machine after the time limit, which takes three microseconds."""
    max_stored_rows: int = 4096
    """Most rows of a pair that is solved on stored kernel values, which then take 64 MiB."""
    large_pair_rows: int = 8192
    """Pairs with more rows are solved one at a time: their blocks and passes keep all threads busy."""


def solve_blocks(
    pairs: ClassPairs, numbers: Indices, start: Floats | None, n_threads: int, few: int | None = None
) -> FoundPairs:
    """Solve the problems of some pairs.

    Parameters
    ----------
    pairs : ClassPairs
    numbers : ndarray of int
    start : ndarray of shape (n_classes - 1, n), optional
        Coefficients of all pairs times labels, to start from.
    n_threads : int
    few : int, optional
        Number of rows per class whose coefficients may change; those of other rows are zero. All by
        default.

    Returns
    -------
    FoundPairs
    """
    kernel, problems = pairs.precise.take(np.arange(pairs.bounds[-1]), n_threads), pairs.joined(numbers, few)
    dual, margins = np.zeros(len(problems.labels)), np.zeros(len(problems.labels))
    if start is not None:
        dual = problems.feasible(problems.coefficients(start))
        margins = problems.margins(kernel, dual)[0] if dual.any() else margins
    _core.solve_blocks(
        kernel.value_parts(problems.rows, problems.rows), problems.rows.bounds, problems.losses.conjugate.stack(),
        problems.labels, dual, margins, pairs.intercept, 200, n_threads,  # 200 is the limit of steps per pair.
    )  # fmt: skip
    if few is not None:
        problems, dual = _in_all_rows(pairs, numbers, few, dual)
    return certified(numbers, problems, kernel, dual)


def certified(numbers: Indices, problems: JoinedProblems, kernel: KernelMatrix, dual: Floats) -> FoundPairs:
    """Return the machines of pairs at feasible coefficients near `dual`, with their certificates.

    `kernel` is the float64 matrix of all rows. All kernel values that it has computed are counted
    for these pairs.
    """
    dual[~problems.each(np.isfinite(problems.sums(dual)))] = 0.0  # Discard results that are not finite.
    dual = problems.feasible(dual)
    _, objectives = problems.objectives(kernel, dual)
    return FoundPairs(numbers, problems, dual, objectives, kernel.evaluations)


def _in_all_rows(pairs: ClassPairs, numbers: Indices, few: int, dual: Floats) -> tuple[JoinedProblems, Floats]:
    """Return the problems of pairs on all rows, with the coefficients of each class's first rows."""
    problems = pairs.joined(numbers)
    sizes = np.diff(pairs.bounds)[pairs.pairs[numbers]].ravel()
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    every = np.zeros(len(within))
    every[within < few] = dual
    return problems, every
