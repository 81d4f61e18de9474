"""DiODM with concatenated warm starts still ends at the optimum."""

import pytest
from helpers import HINGE, ODM, blobs, certificate, dual_of, make_problem, name
from numpy.testing import assert_allclose
from trainings import RBF, training

from dimargin.strategies import Exact, TreeShape
from dimargin_bench.experiments.literal_diodm import ConcatenatingDiODM


@pytest.mark.parametrize("loss", [ODM, HINGE], ids=name)  # The concatenated coefficients of the hinge leave their box.
def test_level_zero_is_the_exact_solution(loss):
    X, labels = blobs(600, seed=1, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF)
    shape = TreeShape(branching=2, n_levels=2, n_landmarks=5)
    tree = ConcatenatingDiODM(early_stop=False).train(training(problem, shape))
    exact = Exact().train(training(problem, TreeShape()))
    assert tree.status == exact.status == "converged"
    assert_allclose(tree.objectives.primal, exact.objectives.primal, rtol=2e-6)
    assert certificate(problem, dual_of(problem, tree.model))[2].max() <= 1.1e-6
