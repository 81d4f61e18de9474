"""The global certificate of a fitted model: what `certify` computes."""

from __future__ import annotations

import time

import numpy as np
from sklearn.utils import gen_batches

from dimargin.kernels import Floats, Indices
from dimargin.solution import DualProblem, Objectives

_VALUES_AT_ONCE = 10**8  # between two looks at the time


def global_objectives(
    problem: DualProblem, support: Indices, coefficients: Floats, intercept: Floats, max_time: float | None
) -> Objectives:
    """Of the model whose coefficients are those of the dual: one pass over the columns of the support.

    Parameters
    ----------
    problem : DualProblem
        The whole, on float64 kernel values.
    support : ndarray of shape (n_SV,)
        Places of the support vectors.
    coefficients : ndarray of shape (n_outputs, n_SV)
        With labels.
    intercept : ndarray of shape (n_outputs,)
    max_time : float or None
        Seconds.

    Raises
    ------
    TimeoutError
        If the pass did not end in `max_time`.
    """
    dual = np.zeros(problem.labels.shape)
    dual[:, support] = problem.labels[:, support] * coefficients
    return problem.objectives(dual, _margins(problem, support, coefficients, max_time), intercept)


def landmark_objectives(
    problem: DualProblem, support: Indices, coefficients: Floats, intercept: Floats, max_time: float | None
) -> Objectives:
    """Of a model in the space of landmarks, whose coefficients belong to no dual: parameters as above.

    The primal objective is that of its function f. The dual one is that of ``g_i = -loss_i'(m_i)``, with a coefficient
    for every row, at the price of a pass over the columns of all that are not zero. Their gap is half the squared
    distance, in the kernel's space, of f and ``sum_i y_i g_i k(x_i, .)``; with an intercept, and what rows lack.
    """
    began = time.perf_counter()
    margins = _margins(problem, support, coefficients, max_time)
    shifted = problem.shifted(margins, intercept)
    dual = problem.feasible(problem.pieces.response(shifted)[0])
    every = np.flatnonzero(dual.any(axis=0))
    left = None if max_time is None else max_time - (time.perf_counter() - began)
    reached = _margins(problem, every, (problem.labels * dual)[:, every], left)
    square = (coefficients * (problem.labels * margins)[:, support]).sum(axis=1)
    distance = square - 2 * (dual * margins).sum(axis=1) + (dual * reached).sum(axis=1)
    primal = 0.5 * square + problem.values(shifted).sum(axis=1)
    gap = problem.gaps(dual, shifted).sum(axis=1) + 0.5 * np.maximum(distance, 0.0)
    relative = gap / np.maximum(np.abs(primal), np.finfo(float).tiny)
    return Objectives(primal, primal - gap, relative, intercept)


def _margins(problem: DualProblem, columns: Indices, coefficients: Floats, max_time: float | None) -> Floats:
    began, n = time.perf_counter(), problem.n_rows
    margins = np.zeros(problem.labels.shape)
    for batch in gen_batches(n, max(512, _VALUES_AT_ONCE // max(1, len(columns)))):
        rows = np.arange(n)[batch]
        margins[:, batch] = problem.labels[:, batch] * problem.kernel.multiply(columns, coefficients, rows)
        if max_time is not None and time.perf_counter() - began > max_time:
            raise TimeoutError(
                f"the global certificate needs more than max_time={max_time:.3g} s: {batch.stop} of {n} rows were done"
            )
    return margins
