"""What a solve goes on from."""

import numpy as np
from helpers import ODM, blobs, fit, gram, make_problem
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.solvers import BlockCoordinateDescent, Limits

RBF = Kernel("rbf", gamma=1.0)


def test_an_output_goes_on_from_where_it_is_when_another_rests():
    """Not from its best iterate, whose gap may be smaller and yet its dual objective lower: progress would be lost."""
    X, labels = blobs(600, n_outputs=2)
    problem = make_problem(X, labels, ODM, RBF)
    optimum = fit(problem, tol=1e-8).dual
    steep = labels[1] * np.linalg.eigh(gram(problem))[1][:, -1]  # costs the primal objective more than the dual one
    best, present = 0.9 * optimum[1], optimum[1] + 0.01 * np.linalg.norm(optimum[1]) * steep
    solver = BlockCoordinateDescent()
    state = solver.init(problem, np.array([0 * best, best]), Limits(tol=1e-4))
    before = solver.check(state)
    dual = np.array([optimum[0], present])
    state.iterate.move_to(dual, problem.margins(dual), None)
    state.schedule.unchecked = True
    now = state.iterate.objectives()
    assert now.relative_gap[1] > before.relative_gap[1] and now.dual[1] > before.dual[1]
    solver.check(state)
    assert_array_equal(state.iterate.outputs, [1])
    assert_array_equal(state.iterate.dual, [present])
