r"""Hard-margin machine: the hyperplane farthest from all rows that separates the classes.

For infinite C, and the points ``y_i phi(x_i)`` treated as equally long, the smallest ball around them is
centred at the point of their convex hull that is nearest to the origin (core-set paper, equation 6
without slack). For weights x of sum one and margins ``q = Qx``,

    min_i q_i / sqrt(x'Qx)  <=  widest margin of any hyperplane  <=  sqrt(x'Qx),

for every x. If the left side is positive, the hyperplane separates all rows; the certificate is
that of the coefficients ``g = x / min_i q_i``, whose margins are at least one. If no hyperplane
separates the rows, the origin lies in their hull, the right side falls to zero, and the dual is
unbounded. The paper assumes that the rows can be separated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.solution import Status
from dimargin.shards.parts import whole_of
from dimargin.solvers import solve
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import MarginSpace
from dimargin.strategies.exact import InOnePlace
from dimargin.strategies.strategy import LevelModel, Outcome, Training, level_entry
from dimargin.system.arrays import Floats


@dataclass(eq=False, repr=False)
class HardMargin(InOnePlace):
    """Core-set in float64 that grows until the margin of its hyperplane is within the tolerance of the widest."""

    def train(self, training: Training) -> Outcome:
        """Train; the history has one entry. Raises ValueError if no separating hyperplane is found."""
        began = time.perf_counter()
        training.progress.level_begin(0, None)
        whole = training.rows.merge(whole_of, training.rows.n_shards)
        (part,) = whole.collect()
        problem = DualProblem.of(part.problem, part.problem.kernel.in_float64())
        limits = replace(training.limits, stop_requested=training.progress.check)
        weights, passes, spent = np.zeros(problem.labels.shape), 0, 0
        status: Status = "converged"
        reason = ""
        for output, own in enumerate(weights):
            space = MarginSpace(problem.kernel, None, problem.labels[output])
            start = None if part.dual is None else np.flatnonzero(part.dual[output])
            # The relative gap is twice what the margins may lack, so 0.4 keeps it below the
            # tolerance.
            solver = GrowingCoreSet(0.4 * limits.tol, training.random_state)
            found = solve(space, solver, start if start is not None and len(start) else None, limits)
            own[found.indices] = found.weights
            passes, spent = passes + found.result.passes, spent + space.evaluations
            if not reason or found.result.status != "converged":
                status, reason = found.result.status, found.result.reason
        dual = separating(problem, weights, problem.margins(weights), status)
        objectives = problem.certified(dual)
        if status in ("converged", "precision"):  # These are for the tolerance of the ball, not for that of the gap.
            reason = f"relative gap {objectives.worst_gap:.2e}, tol={limits.tol:g}"
            status = "converged" if objectives.worst_gap <= limits.tol else "precision"
        core_set = int(np.count_nonzero(dual.any(axis=0)))
        entry = level_entry(objectives, time.perf_counter() - began, spent, core_set=core_set)
        model = LevelModel.of(part, dual, objectives.intercept)
        training.progress.level_end(entry, lambda: model)
        return Outcome(
            model=model,
            scope="global",
            objectives=objectives,
            status=status,
            reason=reason,
            passes=passes,
            kernel_evaluations=spent,
            history=[entry],
        )


def separating(problem: DualProblem, weights: Floats, margins: Floats, status: Status) -> Floats:
    """Return the multiples of the weights whose margins are at least one after any rounding.

    Parameters
    ----------
    problem : DualProblem
        The whole problem, on float64 kernel values.
    weights : ndarray of shape (n_outputs, n)
        Non-negative, of sum one for every output.
    margins : ndarray of shape (n_outputs, n)
        Margins of these weights.
    status : Status
        Why the search for the weights ended.

    Raises
    ------
    ValueError
        If a row is on the wrong side of a hyperplane, or may be because of rounding.
    """
    errors = problem.margin_errors(weights, margins)
    # Margins are computed twice, so the bound of their rounding is counted four times.
    smallest = (margins - 4 * errors).min(axis=1, keepdims=True)
    for output in np.flatnonzero(~(smallest > 0)).tolist():
        raise ValueError(_not_separated(problem, weights[output], margins[output], errors[output], output, status))
    return np.asarray(weights / smallest)


def _not_separated(
    problem: DualProblem, weights: Floats, margins: Floats, errors: Floats, output: int, status: Status
) -> str:
    """Return the message that the rows are not separated, with an upper bound of the margin of any hyperplane."""
    square, longest = float(weights @ (margins + errors)), float(problem.kernel.row_sizes.max())
    of_class = "" if len(problem.labels) == 1 else f" of class number {output} against the others"
    if status in ("converged", "precision"):
        found = "float64 finds none for these rows"
    else:
        found = f"the fit ended ({status}) before one was found"
    return (
        f"C=inf asks for a hyperplane that separates the rows{of_class}, but {found}: the margin of any hyperplane is "
        f"at most {max(square, 0.0) ** 0.5:.2g}, with rows of length up to {longest:.2g}. Use a finite C or a kernel "
        "that separates them (rbf with a larger gamma separates all but equal rows of different labels), or scale the "
        "features"
    )
