"""Problems to solve, and the arithmetic to check them with: float64 numpy that shares no code with the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import numpy as np
from qpsolvers import solve_qp
from scipy.optimize import minimize_scalar
from scipy.sparse import csc_matrix
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss, Loss, ODMLoss, SquaredHingeLoss
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss
from dimargin.problems.solution import Solution
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies import LevelModel

ODM = ODMLoss(lam=256.0, upsilon=0.4, theta=0.2)
HINGE = HingeLoss(C=2.0)
SQUARED_HINGE = SquaredHingeLoss(C=2.0)
LOSSES = [ODM, HINGE, SQUARED_HINGE]
KERNELS = [
    Kernel("linear"),
    Kernel("poly", gamma=0.5, degree=2, coef0=1.0),
    Kernel("rbf", gamma=1.0),
    Kernel("laplacian", gamma=0.5),
]


def name(value) -> str:
    """Identifier of a loss or a kernel for parametrised tests."""
    return value.name if isinstance(value, Kernel) else type(value).__name__


def blobs(n: int, seed: int = 0, n_features: int = 4, n_outputs: int = 1):
    """Overlapping classes in the plane of the first features: rows, and labels of shape (n_outputs, n)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    clean = np.array([np.sin(2 * X[:, 0] + q) + X[:, 1] for q in range(n_outputs)])
    labels = np.where(clean + 0.5 * rng.normal(size=clean.shape) > 0, 1.0, -1.0)
    labels[:, :2] = [1.0, -1.0]
    return X, labels


def make_problem(
    X, labels, loss: Loss, kernel: Kernel, weights=None, mass=None, total=None, n_threads: int = 1, intercept=False
):
    """A whole problem, unless `mass` and `total` say that it is a part."""
    weights = np.ones(X.shape[0]) if weights is None else np.asarray(weights, dtype=float)
    matrix = KernelMatrix(RowTransform.fit(X, kernel), X, n_threads=n_threads)
    own = float(weights.sum())
    labels = np.atleast_2d(np.asarray(labels, dtype=float))
    mass, total = (own if value is None else value for value in (mass, total))
    return DualProblem(labels, weights, loss, mass, total, intercept, kernel=matrix)


def solution_of(dual, objectives) -> Solution:
    """Return a converged solution with given coefficients and objectives, for tests of what uses solutions."""
    return Solution(
        dual, dual, objectives=objectives, status="converged", reason="", passes=1, kernel_evaluations=1,
        history=[{"relative_gap": 1.0}],
    )  # fmt: skip


def fit(problem: DualProblem, tol: float = 1e-3, start=None, **limits) -> Solution:
    """The exact solver's solution."""
    return solve(problem, BlockCoordinateDescent(), start, Limits(tol=tol, **limits))


def scattered(problem: DualProblem, n_shards: int = 3, start=None, n_threads: int = 1) -> Shards[Part]:
    """The rows of a problem on threads, in the order in which they are."""
    parts = Part.split(problem, min(n_shards, problem.n_rows), start)
    return LocalEngine(n_threads, Event()).scatter(parts)


def dual_of(problem: DualProblem, model: LevelModel) -> np.ndarray:
    """Coefficients of all rows, without labels."""
    assert np.all(np.diff(model.indices) > 0)
    assert np.array_equal(model.labels, problem.labels[:, model.indices])
    assert not abs(model.vectors - problem.kernel.rows(model.indices)).sum()
    dual = np.zeros(problem.labels.shape)
    dual[:, model.indices] = problem.labels[:, model.indices] * model.coefficients
    return dual


def clusters_of(problem: DualProblem, model: LevelModel) -> np.ndarray:
    """Clusters of all rows."""
    clusters = model.router.rule.assign(problem.kernel.rows(np.arange(problem.n_rows)))
    assert np.array_equal(model.router.clusters, clusters[model.indices])
    return clusters


def routed(problem: DualProblem, model: LevelModel, queries) -> np.ndarray:
    """Decision values of the machines of a level."""
    matrix = KernelMatrix(problem.kernel.transform, model.vectors, queries=queries)
    return model.router.decision_values(matrix, queries, model.coefficients)


def gram(problem: DualProblem) -> np.ndarray:
    """Kernel values of the rows of a problem, by scikit-learn in float64."""
    X = np.asarray(problem.kernel.rows(np.arange(problem.n_rows)), dtype=float)
    k = problem.kernel.transform.kernel
    if k.name == "linear":
        return X @ X.T
    if k.name == "poly":
        return polynomial_kernel(X, degree=k.degree, gamma=k.gamma, coef0=k.coef0)
    return (rbf_kernel if k.name == "rbf" else laplacian_kernel)(X, gamma=k.gamma)


def loss_and_conjugate(problem: DualProblem, margins, dual):
    """Sums over the rows of the primal loss and of ``phi``, by the formulas of the paper: zeta and beta apart."""
    loss, s = problem.loss, problem.weights
    if isinstance(loss, ODMLoss):
        W, upsilon, theta = problem.mass, loss.upsilon, loss.theta
        lam = 20.0 * problem.total if loss.lam is None else loss.lam
        xi, epsilon = np.maximum(1 - theta - margins, 0), np.maximum(margins - 1 - theta, 0)
        zeta, beta = np.maximum(dual, 0), np.maximum(-dual, 0)
        c = (1 - theta) ** 2 / (lam * upsilon)
        primal = lam / (2 * W * (1 - theta) ** 2) * s * (xi**2 + upsilon * epsilon**2)
        phi = W * c / (2 * s) * (upsilon * zeta**2 + beta**2) + (theta - 1) * zeta + (theta + 1) * beta
        return primal.sum(axis=-1), phi.sum(axis=-1)
    C, xi = loss.C * problem.total / problem.mass * s, np.maximum(1 - margins, 0)
    if isinstance(loss, EpsilonInsensitiveLoss):
        targets = 0.0 if problem.targets is None else problem.targets
        excess = np.maximum(np.abs(margins - targets) - loss.epsilon, 0)
        phi = loss.epsilon * np.abs(dual) - targets * dual
        if isinstance(loss, SquaredEpsilonInsensitiveLoss):
            return (C * excess**2).sum(axis=-1), (phi + dual**2 / (4 * C)).sum(axis=-1)
        assert (np.abs(dual) <= C).all()
        return (C * excess).sum(axis=-1), phi.sum(axis=-1)
    if isinstance(loss, HingeLoss):
        assert (dual >= 0).all() and (dual <= C).all()
        return (C * xi).sum(axis=-1), -dual.sum(axis=-1)
    assert (dual >= 0).all()
    return (C * xi**2).sum(axis=-1), (dual**2 / (4 * C) - dual).sum(axis=-1)


def best_intercept(problem: DualProblem, labels, margins) -> float:
    """By trial: the loss is convex, and linear or quadratic between the kinks."""
    nothing = np.zeros(problem.n_rows)

    def loss(b):
        return loss_and_conjugate(problem, margins + labels * b, nothing)[0]

    theta = getattr(problem.loss, "theta", 0.0)
    kinks = np.unique(np.concatenate([labels * (1 + side * theta - margins) for side in (-1, 1)]))
    best = int(np.argmin([loss(b) for b in kinks]))
    low, high = kinks[max(best - 1, 0)], kinks[min(best + 1, len(kinks) - 1)]
    between = (
        minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}) if low < high else None
    )
    return float(kinks[best] if between is None or loss(kinks[best]) <= between.fun else between.x)


def certificate(problem: DualProblem, dual):
    """Primal and dual objective and relative gap of every output, from the dual coefficients alone."""
    signed = problem.labels * dual
    margins = problem.labels * (signed @ gram(problem))
    quadratic = 0.5 * (dual * margins).sum(axis=1)
    if problem.intercept:
        assert np.abs(signed.sum(axis=1)).max() <= 1e-9 * np.abs(signed).sum()
        margins = margins + problem.labels * [
            [best_intercept(problem, y, m)] for y, m in zip(problem.labels, margins, strict=True)
        ]
    loss, phi = loss_and_conjugate(problem, margins, dual)
    primal, dual_objective = quadratic + loss, -quadratic - phi
    return primal, dual_objective, (primal - dual_objective) / np.abs(primal)


def interior_point_optimum(problem: DualProblem, output: int = 0) -> float:
    """Optimal dual objective of an output, of the paper's form in zeta and beta for the optimal margin distribution."""
    y, loss, s, n = problem.labels[output], problem.loss, problem.weights, problem.n_rows
    Q, upper, signs = y[:, None] * gram(problem) * y, np.full(n, np.inf), y
    if isinstance(loss, ODMLoss):
        Wc = problem.mass * (1 - loss.theta) ** 2 / (loss.lam * loss.upsilon)
        P = np.block([[Q + np.diag(Wc * loss.upsilon / s), -Q], [-Q, Q + np.diag(Wc / s)]])
        q = np.r_[np.full(n, loss.theta - 1), np.full(n, loss.theta + 1)]
        upper, signs = np.full(2 * n, np.inf), np.r_[y, -y]
    else:
        C = loss.C * problem.total / problem.mass * s
        squared = isinstance(loss, SquaredHingeLoss)
        P, q, upper = Q + np.diag(1 / (2 * C)) if squared else Q, -np.ones(n), upper if squared else C
    equality = {"A": csc_matrix(signs[None]), "b": np.zeros(1)} if problem.intercept else {}
    options = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    x = solve_qp(csc_matrix(P), q, lb=np.zeros(len(q)), ub=upper, solver="clarabel", **equality, **options)
    x = np.clip(x, 0, upper)
    return float(-(0.5 * x @ P @ x + q @ x))


@contextmanager
def counted(monkeypatch) -> Iterator[list[int]]:
    """Kernel values that the compiled core really computes meanwhile, one entry a call."""
    counts: list[int] = []
    block, multiply = _core.block, _core.multiply

    def counting_block(*arguments):
        counts.append(block(*arguments))
        return counts[-1]

    def counting_multiply(*arguments):
        counts.append(multiply(*arguments))
        return counts[-1]

    with monkeypatch.context() as patch:
        patch.setattr(_core, "block", counting_block)
        patch.setattr(_core, "multiply", counting_multiply)
        yield counts
