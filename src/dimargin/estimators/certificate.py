"""Global certificates of fitted models, as `certify` computes them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import OptimizeResult, minimize
from sklearn.utils import gen_batches

from dimargin.kernels.column_statistics import narrowed
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.dual import DualProblem
from dimargin.problems.hinge import HingeRows
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.solvers import Limits
from dimargin.strategies import LinearCoordinateDescent, LinearTraining
from dimargin.strategies.block_pairs import PairSizes
from dimargin.system.arrays import Floats, Indices

# Options of L-BFGS-B. Hundreds of iterations more would hardly improve the dual objective.
_LBFGS_OPTIONS = {"maxiter": 100, "maxcor": 20}


def global_objectives(
    problem: DualProblem, support: Indices, coefficients: Floats, intercept: Floats, max_time: float | None
) -> Objectives:
    """Compute the objectives of a model from its dual coefficients.

    This takes one pass over the kernel's columns of the support vectors.

    Parameters
    ----------
    problem : DualProblem
        The whole problem, on float64 kernel values.
    support : ndarray of shape (n_SV,)
        Indices of the support vectors.
    coefficients : ndarray of shape (n_outputs, n_SV)
        Dual coefficients times labels.
    intercept : ndarray of shape (n_outputs,)
    max_time : float or None
        Time limit of the pass in seconds.

    Raises
    ------
    TimeoutError
        If the time limit is exceeded.
    """
    began = time.perf_counter()
    dual = np.zeros(problem.labels.shape)
    dual[:, support] = problem.labels[:, support] * coefficients
    margins, feasible = _margins(problem, support, coefficients, max_time), problem.feasible(dual)
    if np.array_equal(feasible, dual):
        return problem.certified(dual, margins, intercept)
    left = None if max_time is None else max_time - (time.perf_counter() - began)
    return _objectives_apart(problem, support, coefficients, margins, intercept, feasible, left)


def pair_objectives(
    pairs: ClassPairs, signed: Floats, intercepts: Floats, tol: float, max_time: float | None
) -> Objectives:
    """Compute the objectives of all pairs of classes, small pairs in groups.

    Parameters
    ----------
    pairs : ClassPairs
        The problems, on float64 kernel values.
    signed : ndarray of shape (n_classes - 1, n)
        Coefficients of all pairs times labels.
    intercepts : ndarray of shape (n_pairs,)
    tol : float
        Relative gap that rounding should be small against.
    max_time : float or None
        Time limit in seconds.

    Raises
    ------
    TimeoutError
        If the time limit is exceeded.
    """
    began, n_pairs = time.perf_counter(), len(intercepts)
    found, is_open = Objectives(*np.zeros((5, n_pairs))), np.ones(n_pairs, dtype=bool)

    def left() -> float | None:
        return None if max_time is None else max_time - (time.perf_counter() - began)

    small = np.flatnonzero(pairs.n_rows <= PairSizes.max_stored_rows)
    for group in pairs.groups(small, PairSizes.values_at_once, PairSizes.rows_at_once):
        if max_time is not None and time.perf_counter() - began > max_time:
            raise TimeoutError(
                f"the global certificate needs more than max_time={max_time:.3g} s: {n_pairs - is_open.sum()} of "
                f"{n_pairs} pairs of classes were done"
            )
        problems = pairs.joined(group)
        dual = problems.coefficients(signed)
        own = problems.objectives(pairs.kernel, dual, intercepts[group])[1]
        # A pair is solved separately below if its coefficients are infeasible or its rounding is
        # too large.
        is_valid = problems.sums((problems.feasible(dual) != dual).astype(float)) == 0
        is_valid &= own.rounding <= 0.1 * np.maximum(own.unrounded, tol)
        found.set(group[is_valid], own.take(is_valid))
        is_open[group[is_valid]] = False
    for number in np.flatnonzero(is_open).tolist():
        problem = pairs.problem(pairs.pairs[number], pairs.kernel.n_threads)
        coefficients = problem.labels * pairs.joined([number]).coefficients(signed)
        support = np.flatnonzero(coefficients[0])
        objectives = global_objectives(problem, support, coefficients[:, support], intercepts[[number]], left())
        found.set(np.array([number]), objectives)
    return found


def landmark_objectives(
    problem: DualProblem, support: Indices, coefficients: Floats, intercept: Floats, max_time: float | None
) -> Objectives:
    """Compute the objectives of a landmark model, whose coefficients are not dual variables.

    Parameters and errors are those of `global_objectives`. The primal objective is that of the
    model's function f. The dual objective is that of ``g_i = -loss_i'(m_i)``, a coefficient for
    every row, which takes another pass over the columns of its nonzeros. The gap is half the
    squared distance between f and ``sum_i y_i g_i k(x_i, .)`` in the kernel's space, plus the
    Fenchel-Young terms of coefficients that had to be made feasible.
    """
    began = time.perf_counter()
    margins = _margins(problem, support, coefficients, max_time)
    dual = problem.feasible(problem.conjugate.response(problem.shifted(margins, intercept))[0])
    left = None if max_time is None else max_time - (time.perf_counter() - began)
    return _objectives_apart(problem, support, coefficients, margins, intercept, dual, left)


def _objectives_apart(
    problem: DualProblem,
    support: Indices,
    coefficients: Floats,
    margins: Floats,
    intercept: Floats,
    dual: Floats,
    left: float | None,
) -> Objectives:
    """Return the primal objective of a model and the dual one of other coefficients.

    The gap is the sum of the Fenchel-Young terms at the model's margins, plus half the squared
    distance between the model's function and that of the coefficients in the kernel's space.
    """
    shifted, every = problem.shifted(margins, intercept), np.flatnonzero(dual.any(axis=0))
    reached = _margins(problem, every, (problem.labels * dual)[:, every], left)
    square = (coefficients * (problem.labels * margins)[:, support]).sum(axis=1)
    distance = square - 2 * (dual * margins).sum(axis=1) + (dual * reached).sum(axis=1)
    losses = problem.values(shifted)
    gap = problem.gaps(dual, shifted).sum(axis=1) + 0.5 * np.maximum(distance, 0.0)
    errors = problem.kernel.product_errors(support, coefficients)
    own = problem.kernel.product_errors(every, dual[:, every])
    sums, at_dual = (problem.objective_sums(dual, m, intercept, e) for m, e in ((margins, errors), (reached, own)))
    # The rounding bound covers the three products, the losses, and the sums.
    sizes = np.abs(coefficients)
    rounding = (sizes * (errors + ROUNDINGS * np.abs(margins))[:, support]).sum(axis=1)
    rounding += (np.abs(dual) * (errors + own + ROUNDINGS * np.abs(reached))).sum(axis=1)
    rounding += np.abs([problem.values(shifted + e) - losses for e in (-errors, errors)]).max(axis=0).sum(axis=1)
    rounding += sums.gap_rounding + sums.dual_rounding
    found = at_dual._replace(primal=0.5 * square + losses.sum(axis=1), gap=gap, gap_rounding=rounding)
    return found.objectives(intercept, problem.reach(dual))


def indices_of_vectors(vectors: Any, coefficients: Floats, X: Any, labels: Floats) -> Indices:
    """Find the support vectors of a model, trained by several sites, among the rows of all sites.

    Parameters
    ----------
    vectors : ndarray or CSR array of shape (n_SV, n_features)
        Equal to rows of X up to rounding, and dense or sparse as X is.
    coefficients : ndarray of shape (n_outputs, n_SV)
        Signed like the labels of the rows.
    X : ndarray or CSR array of shape (n, n_features)
    labels : ndarray of shape (n_outputs, n)
        Plus or minus one.

    Returns
    -------
    ndarray of shape (n_SV,)
        Indices of distinct rows.

    Raises
    ------
    ValueError
        If a vector is not among the rows.
    """
    if sp.issparse(X):
        both, _ = narrowed(sp.csr_array(sp.vstack([X, vectors])))
        X, vectors = both[: X.shape[0]], both[X.shape[0] :]
    line = np.random.default_rng(0).normal(size=X.shape[1])  # Equal rows have equal projections.
    order = np.argsort(X @ line)
    on_line, wanted = (X @ line)[order], vectors @ line
    size = float(abs(vectors).max())
    tolerance = 1e-9 * size  # Sites scale their rows separately, with other rounding.
    width = tolerance * (1 + float(np.abs(line).sum()))
    first, last = np.searchsorted(on_line, wanted - width), np.searchsorted(on_line, wanted + width, side="right")
    free, indices = np.ones(len(order), dtype=bool), []
    for k, signs in enumerate(np.sign(coefficients.T)):
        near = order[first[k] : last[k]]
        rows, vector = (part.toarray() if sp.issparse(part) else part for part in (X[near], vectors[[k]]))
        fits = free[near] & (np.abs(rows - vector).max(axis=1, initial=0.0) <= tolerance)
        fits &= ((signs == 0) | (signs == labels[:, near].T)).all(axis=1)
        if not fits.any():
            raise ValueError("X, y are not the rows that this model was fitted on: a support vector is not among them")
        indices.append(int(near[fits.argmax()]))
        free[indices[-1]] = False
    return np.array(indices, dtype=np.int64)


def hinge_objectives(
    rows: HingeRows, weights: Floats, alpha: float, tol: float, deadline: float | None = None
) -> Objectives:
    """Compute the primal objective of a linear machine, and a dual objective near the optimum.

    The primal is ``alpha/2 |w|^2 + mean(loss(y w.x))``. For the hinge, the dual over a in [0, 1] is
    ``mean(a) - |1/n sum_i a_i y_i x_i|^2 / (2 alpha)``; dual coordinate descent
    (`dimargin.solvers.coordinate_descent`) starts from the rows with a margin below one, and ends
    at half of `tol`. For a smooth loss, L-BFGS-B (Byrd, Lu, Nocedal, Zhu, SIAM J. Sci. Comput.
    1995) minimises the primal from the given weights; the dual objective of the coefficients that
    follow from the margins is ``|gradient|^2 / (2 alpha)`` lower, which vanishes at the optimum.

    Parameters
    ----------
    rows : HingeRows
    weights : ndarray of shape (n_outputs, n_features)
    alpha, tol : float
    deadline : float, optional
        Time limit on the clock of `time.perf_counter`.

    Returns
    -------
    Objectives
        The gap includes rounding.
    """
    evaluation, n = rows.evaluate(weights), rows.n_rows
    primal = 0.5 * alpha * (weights**2).sum(axis=1) + evaluation.loss / n
    best = _best_of_smooth if rows.loss.smooth else _best_of_hinge
    starts = weights if rows.loss.smooth else evaluation.dual
    lower = [
        best(HingeRows(rows.X, signs[None], rows.loss), start, objective, alpha, tol, deadline)
        for signs, start, objective in zip(rows.signs, starts, primal.tolist(), strict=True)
    ]
    return hinge_certificate(rows, weights, primal, np.array(lower))


def _best_of_hinge(
    rows: HingeRows, dual: Floats, objective: float, alpha: float, tol: float, deadline: float | None
) -> float:
    """Maximise the dual objective of the hinge for one output, from coefficients of shape (n,)."""
    n, price = rows.n_rows, 1 / (alpha * rows.n_rows)
    losses = MarginLosses(rows.signs, np.ones(n), HingeLoss(price), float(n), float(n))
    found = LinearCoordinateDescent().train(
        LinearTraining.of(rows.X, losses, Limits(0.5 * tol, 1000, deadline), dual=price * dual[None])
    )
    assert found.dual is not None
    return float(rows.dual_objective(np.clip(found.dual / price, 0.0, 1.0), alpha)[0])


def _best_of_smooth(
    rows: HingeRows, weights: Floats, objective: float, alpha: float, tol: float, deadline: float | None
) -> float:
    """Minimise the primal from weights of shape (n_features,), and return the best dual value."""
    best, last = -np.inf, weights

    def primal(weights: Floats) -> tuple[float, Floats]:
        nonlocal best, last
        found = rows.evaluate(weights[None])
        gradient = alpha * weights - found.pull[0] / rows.n_rows
        value = 0.5 * alpha * float(weights @ weights) + float(found.loss[0]) / rows.n_rows
        dual = value - float(gradient @ gradient) / (2 * alpha)
        if dual > best:
            best, last = dual, weights.copy()
        return value, gradient

    def is_enough(intermediate_result: OptimizeResult) -> None:
        is_late = deadline is not None and time.perf_counter() > deadline
        if is_late or objective - best <= 0.5 * tol * abs(objective):
            raise StopIteration

    options = {**_LBFGS_OPTIONS, "ftol": 0.0, "gtol": 0.0}
    with np.errstate(divide="ignore"):
        minimize(primal, weights, jac=True, method="L-BFGS-B", callback=is_enough, options=options)
    return float(rows.dual_objective(rows.evaluate(last[None]).dual, alpha)[0])


def hinge_certificate(rows: HingeRows, weights: Floats, primal: Floats, lower: Floats) -> Objectives:
    """Return the objectives of a linear machine, given a lower bound of the optimum."""
    rounding = rows.loss_rounding(weights) / rows.n_rows + ROUNDINGS * primal
    gap = np.maximum(primal - lower, 0.0)
    return Objectives.of(primal, gap, np.zeros(len(primal)), rounding)


def _margins(problem: DualProblem, columns: Indices, coefficients: Floats, max_time: float | None) -> Floats:
    began, n = time.perf_counter(), problem.n_rows
    if problem.kernel.has_weights:
        return problem.labels * problem.kernel.scores(problem.kernel.weights(columns, coefficients))
    margins = np.zeros(problem.labels.shape)
    # A batch has about 1e8 kernel values; the time limit is checked after each.
    for batch in gen_batches(n, max(512, 10**8 // max(1, len(columns)))):
        rows = np.arange(n)[batch]
        margins[:, batch] = problem.labels[:, batch] * problem.kernel.multiply(columns, coefficients, rows)
        if max_time is not None and time.perf_counter() - began > max_time:
            raise TimeoutError(
                f"the global certificate needs more than max_time={max_time:.3g} s: {batch.stop} of {n} rows were done"
            )
    return margins
