"""The compiled core alone, where scikit-learn is not installed: what a wheel for musl must be able to do."""

import sys

import numpy as np

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss
from dimargin.solvers import BlockCoordinateDescent, Limits, solve

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 2))
labels = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
kernel = Kernel("rbf", gamma=1.0)
matrix = KernelMatrix(RowTransform.fit(X, kernel), X, n_threads=2)
total = float(len(X))
problem = DualProblem(labels[None], np.ones(len(X)), HingeLoss(1.0), mass=total, total=total, kernel=matrix)
solution = solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-3))
values = matrix.multiply(np.arange(len(X)), labels * solution.dual)[0]
accuracy = float((values * labels > 0).mean())
print(f"{_core.instruction_sets()}: {solution.status}, {solution.objectives.worst_gap:.1e}, accuracy {accuracy:.3f}")
assert solution.status == "converged" and solution.objectives.worst_gap <= 1e-3 and accuracy > 0.97
assert "sklearn" not in sys.modules
