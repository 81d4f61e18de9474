r"""The hard-margin machine: the hyperplane farthest from all rows, each on the side of its label.

At an infinite C the smallest ball around the points ``y_i phi(x_i)``, all counted as equally long, is around the point
of their convex hull that is nearest to the origin (core-set paper, equation 6 without slack; Tsang, Kwok, Zurada, IEEE
TNN 2006, section III): for weights x of sum one and margins ``q = Qx``,

    min_i q_i / sqrt(x'Qx)  <=  widest margin of any hyperplane  <=  sqrt(x'Qx),

whatever x is. The left side, if positive, proves that the hyperplane errs nowhere; it is certified as the machine of
the coefficients ``g = x / min_i q_i``, whose margins are at least one. The right side says what rows that no hyperplane
separates have instead: the origin lies in their hull, ``x'Qx`` falls to zero, and the dual is unbounded. The paper
takes for granted that the rows can be separated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.solution import Status
from dimargin.shards.parts import Part, whole_of
from dimargin.solvers import solve
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import MarginSpace
from dimargin.strategies.exact import InOnePlace
from dimargin.strategies.strategy import LevelModel, Outcome, Training
from dimargin.system.arrays import Floats

_SHARE = 0.4  # of the tolerance, that margins may lack; the gap is twice that
_ERRORS = 4  # times the bound of their rounding, that margins are taken to be smaller: they are computed twice


@dataclass(eq=False, repr=False)
class HardMargin(InOnePlace):
    """Let a core-set grow until its hyperplane is as far from all rows as the tolerance wants, in float64."""

    def train(self, training: Training) -> Outcome:
        """Train; the history has one entry. Raises ValueError where no hyperplane without errors is found."""
        began = time.perf_counter()
        training.progress.level_begin(0, None)
        whole = training.rows.merge(whole_of, training.rows.n_shards)
        (part,) = whole.collect(_itself)
        problem = DualProblem.of(part.problem, part.problem.kernel.in_float64())
        limits = replace(training.limits, stop_requested=training.progress.check)
        weights, passes, spent = np.zeros(problem.labels.shape), 0, 0
        status: Status = "converged"
        reason = ""
        for output, own in enumerate(weights):
            space = MarginSpace(problem.kernel, None, problem.labels[output])
            start = None if part.dual is None else np.flatnonzero(part.dual[output])
            solver = GrowingCoreSet(_SHARE * limits.tol, training.random_state)
            found = solve(space, solver, start if start is not None and len(start) else None, limits)
            own[found.indices] = found.weights
            passes, spent = passes + found.passes, spent + space.evaluations
            if not reason or found.status != "converged":
                status, reason = found.status, found.reason
        dual = separating(problem, weights, problem.margins(weights), status)
        objectives = problem.certified(dual)
        if status in ("converged", "precision"):  # as balls are, by other tolerances
            reason = f"relative gap {objectives.worst_gap:.2e}, tol={limits.tol:g}"
            status = "converged" if objectives.worst_gap <= limits.tol else "precision"
        entry = {
            "level": 0, "partitions": 1, "scope": "global", "seconds": time.perf_counter() - began,
            "kernel_evaluations": spent, "objective": objectives.primal.tolist(),
            "relative_gap": objectives.worst_gap, "core_set": int(np.count_nonzero(dual.any(axis=0))),
        }  # fmt: skip
        model = LevelModel.of(part, dual, objectives.intercept)
        training.progress.level_end(entry, lambda: model)
        return Outcome(model, objectives, "global", status, reason, passes, [entry])


def separating(problem: DualProblem, weights: Floats, margins: Floats, status: Status) -> Floats:
    """Return the multiples of weights whose hyperplanes have margins of at least one, in spite of rounding.

    Parameters
    ----------
    problem : DualProblem
        The whole problem, on float64 kernel values.
    weights : ndarray of shape (n_outputs, n)
        Non-negative, of sum one for every output.
    margins : ndarray of shape (n_outputs, n)
        Of these weights.
    status : Status
        Why the search for the weights ended.

    Raises
    ------
    ValueError
        If a hyperplane has a row on the wrong side, or one whose side rounding leaves open.
    """
    errors = problem.margin_errors(weights, margins)
    least = (margins - _ERRORS * errors).min(axis=1, keepdims=True)
    for output in np.flatnonzero(~(least > 0)).tolist():
        raise ValueError(_not_separated(problem, weights[output], margins[output], errors[output], output, status))
    return np.asarray(weights / least)


def _not_separated(
    problem: DualProblem, weights: Floats, margins: Floats, errors: Floats, output: int, status: Status
) -> str:
    """Return why there is no machine, with the bound of the margin that any hyperplane can have."""
    square, longest = float(weights @ (margins + errors)), float(problem.kernel.row_sizes.max())
    of_class = "" if len(problem.labels) == 1 else f" of class number {output} against the others"
    if status in ("converged", "precision"):
        found = "these rows have none, as far as float64 can tell"
    else:
        found = f"the fit ended ({status}) before one was found"
    return (
        f"C=inf asks for a hyperplane with all rows{of_class} on the sides of their labels, and {found}: the margin of "
        f"any is {max(square, 0.0) ** 0.5:.2g} at most, where rows are as long as {longest:.2g}. Give a finite C, a "
        "kernel that separates them (rbf of a larger gamma separates all but equal rows of different labels), or scale "
        "the features"
    )


def _itself(part: Part, _: None) -> Part:
    return part
