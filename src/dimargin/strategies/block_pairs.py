"""Small pairs of classes as blocks: many are solved in one call, each to rounding on float64 kernel values.

What is done for a pair in Python would take a hundred times longer than to solve ten rows, so that it is done for many
at a time. A pair of classes that there is no time for is solved on few rows of each class: its machine is the best one
of these, whose coefficients are feasible for all rows, and its certificate, as of every pair, is that of all rows.
"""

from __future__ import annotations

import numpy as np

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.strategies.pair_results import FoundPairs
from dimargin.system.arrays import Floats, Indices

VALUES_AT_ONCE = 2**22  # Kernel values of pairs that are solved in one call: they take a small part of a second.
ROWS_AT_ONCE = 2**14  # Rows of these pairs: arrays of them stay in the second-level cache.
FEW_ROWS, LAST_ROWS = 16, 4
"""Rows of a class of which a machine is found in 25 microseconds, and in three, where time is over."""
_MAX_STEPS = 200


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
        Rows of every class whose coefficients may change; the others' are zero. All by default.

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
        problems.labels, dual, margins, pairs.intercept, _MAX_STEPS, n_threads,
    )  # fmt: skip
    if few is not None:
        problems, dual = _in_all_rows(pairs, numbers, few, dual)
    return certified(numbers, problems, kernel, dual)


def certified(numbers: Indices, problems: JoinedProblems, kernel: KernelMatrix, dual: Floats) -> FoundPairs:
    """Return the machines of pairs with the coefficients of all their rows, near `dual`, and their certificates.

    The matrix is that of all rows, in float64; the kernel values that it has computed so far are those of the pairs.
    """
    dual[~problems.each(np.isfinite(problems.sums(dual)))] = 0.0  # where precision did not suffice
    dual = problems.feasible(dual)
    _, objectives = problems.objectives(kernel, dual)
    return FoundPairs(numbers, problems, dual, objectives, kernel.evaluations)


def _in_all_rows(pairs: ClassPairs, numbers: Indices, few: int, dual: Floats) -> tuple[JoinedProblems, Floats]:
    """Return the problems of pairs, and coefficients of all their rows that are those of the first ones of a class."""
    problems = pairs.joined(numbers)
    sizes = np.diff(pairs.bounds)[pairs.pairs[numbers]].ravel()
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    every = np.zeros(len(within))
    every[within < few] = dual
    return problems, every
