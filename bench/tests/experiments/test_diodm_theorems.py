"""Theorems 1 and 2 of the DiODM paper and steps of their proofs, on small problems solved by an interior point method.

Names are the paper's: M rows in K parts of m, alpha = [zeta; beta], the dual objective d of the
whole problem and d~ of all parts together (appendix A.1), U the largest coefficient of the two
optima, Q the sum of the kernel values outside the parts.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import blobs, make_problem, scattered
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import ODMLoss
from dimargin.shards.partition import cluster_rows, nearest_landmark, pivoted_cholesky
from dimargin_bench.experiments.literal_diodm import LandmarkPartition

LOSSES = [ODMLoss(64.0, 0.4, 0.2), ODMLoss(4096.0, 0.1, 0.8), ODMLoss(1.0, 1.0, 0.0)]
M, K = 60, 4
m = M // K


@dataclass
class Dual:
    """The dual of the rows of a kernel matrix with labels, whose own number is n."""

    Q: np.ndarray
    loss: ODMLoss
    n: int  # the number of rows in its weights n c, which is m for the parts together

    @property
    def c(self):
        return (1 - self.loss.theta) ** 2 / (self.loss.lam * self.loss.upsilon)

    @property
    def hessian(self):
        every = np.ones(len(self.Q))
        weights = np.diag(np.r_[self.n * self.c * self.loss.upsilon * every, self.n * self.c * every])
        return np.block([[self.Q, -self.Q], [-self.Q, self.Q]]) + weights

    @property
    def linear(self):
        return np.repeat([self.loss.theta - 1, self.loss.theta + 1], len(self.Q))

    def __call__(self, alpha):
        return 0.5 * alpha @ self.hessian @ alpha + self.linear @ alpha

    def optimum(self):
        options = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
        lower = np.zeros(2 * len(self.Q))
        found = solve_qp(csc_matrix(self.hessian), self.linear, lb=lower, solver="clarabel", **options)
        return np.maximum(found, 0.0)


def signed_kernel(X, y, gamma=0.5):
    return y[:, None] * rbf_kernel(X, gamma=gamma) * y


def parts_of(X, y, loss):
    """Parts by lines 1 and 2 of Algorithm 1, as a number for every row, and the strata of the rows."""
    problem = make_problem(X, y[None], loss, Kernel("rbf", gamma=0.5))
    dealt = LandmarkPartition(n_landmarks=6).deal(scattered(problem), M, K, np.random.default_rng(0))
    part = np.empty(M, dtype=int)
    for k, own in enumerate(dealt.parts.collect()):
        part[own.indices] = k
    landmarks = pivoted_cholesky(problem.kernel, np.arange(M), 6, np.random.default_rng(0))
    return part, nearest_landmark(problem.kernel, landmarks)


def bounds_of_theorem_1(Q, part, loss):
    """Distance of the two optima by d and by alpha, and U^2 (Q + M (M - m) c) over M c upsilon and alone."""
    whole, inside = Dual(Q, loss, M), part[:, None] == part
    best, local = whole.optimum(), Dual(Q * inside, loss, m).optimum()
    largest = max(best.max(), local.max())
    bound = largest**2 * (np.abs(Q[~inside]).sum() + M * (M - m) * whole.c)
    return whole(local) - whole(best), np.sum((local - best) ** 2), bound, M * whole.c * loss.upsilon


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_theorem_1(loss, seed):
    X, labels = blobs(M, seed)
    Q = signed_kernel(X, labels[0])
    for part in (parts_of(X, labels[0], loss)[0], np.arange(M) // m):
        by_objective, by_alpha, bound, convexity = bounds_of_theorem_1(Q, part, loss)
        assert -1e-9 <= by_objective <= bound  # equation 10
        assert by_alpha <= bound / convexity  # equation 11
        assert by_alpha <= 2 * by_objective / convexity + 1e-9  # the step of its proof, with the half it leaves out


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_objective_is_that_of_the_parts_and_what_is_outside(loss):
    """Equations 12 and 13, at any point."""
    X, labels = blobs(M)
    Q, outside = signed_kernel(X, labels[0]), np.arange(M)[:, None] // m != np.arange(M) // m
    alpha = np.random.default_rng(0).random(2 * M)
    zeta, beta = np.split(alpha, 2)
    whole, parts = Dual(Q, loss, M), Dual(Q * ~outside, loss, m)
    expected = parts(alpha) + 0.5 * (zeta - beta) @ (Q * outside) @ (zeta - beta)
    expected += (M - m) * whole.c / 2 * (loss.upsilon * zeta @ zeta + beta @ beta)
    assert whole(alpha) == pytest.approx(expected, rel=1e-12)


def test_the_proof_of_equation_11_loses_a_half():
    """Its Taylor expansion is ``f + g'h + h'Hh`` in place of ``f + g'h + h'Hh / 2``: rows far apart show it."""
    loss, part = ODMLoss(1.0, 1.0, 0.0), np.arange(M) // m
    by_objective, by_alpha, bound, convexity = bounds_of_theorem_1(np.eye(M), part, loss)
    assert by_alpha > 1.9 * by_objective / convexity
    assert by_alpha <= bound / convexity  # equation 11 holds here, though not by its proof


def bound_of_theorem_2(K_values, strata, largest, c):
    """With r = 1, tau the smallest angle between rows of different strata."""
    apart = strata[:, None] != strata
    cosine = K_values[apart].max()
    U, theta = largest, apart.sum()
    return U**2 * M**2 * c / 2 + 2 * U * M + U**2 * M**2 + U**2 * cosine * (2 * theta - M**2)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_theorem_2_holds_for_any_part_so_that_it_says_nothing_of_strata(loss):
    X, labels = blobs(M)
    y, kernel = labels[0], rbf_kernel(X, gamma=0.5)
    Q, (part, strata) = signed_kernel(X, y), parts_of(X, y, loss)
    whole = Dual(Q, loss, M)
    best, local = whole.optimum(), Dual(Q * (part[:, None] == part), loss, m).optimum()
    bound = bound_of_theorem_2(kernel, strata, max(best.max(), local.max()), whole.c)
    one_class = np.flatnonzero(y > 0)[:m]
    for rows in (*(np.flatnonzero(part == k) for k in range(K)), np.argsort(strata)[:m], one_class):
        own = Dual(Q[np.ix_(rows, rows)], loss, len(rows))
        assert own(own.optimum()) <= 0
        assert own(own.optimum()) - whole(best) <= bound
    assert -whole(best) <= 2 * max(best.max(), local.max()) * M <= bound  # for which no row of a part counts


def test_equation_15_of_theorem_2s_proof_ignores_signs():
    """Equal rows: the right side of equation 4 is zero, and the left side is not if a part has one class only."""
    loss, y = LOSSES[0], np.where(np.arange(M) % 2, 1.0, -1.0)
    kernel = np.ones((M, M))
    best, part = Dual(y[:, None] * kernel * y, loss, M).optimum(), Dual(kernel[:m, :m], loss, m).optimum()
    gamma = best[:M] - best[M:]
    repeated = np.tile(part[:m] - part[m:], K) / K  # of the part whose rows are repeated K times
    left = 0.5 * repeated.sum() ** 2 - 0.5 * (y @ gamma) ** 2
    assert left > 0.1


def test_strata_take_fewer_kernel_values_than_kernel_clusters():
    """Section 3.2's claim of a lower time complexity: S values for each row more, and m of them in DC-SVM."""
    found = {"strata": [], "clusters": []}
    for n in (3000, 4000):
        X, labels = blobs(n)
        rows = scattered(make_problem(X, labels, LOSSES[0], Kernel("rbf", gamma=0.5)))
        dealt = LandmarkPartition(n_landmarks=50).deal(rows, n, 16, np.random.default_rng(0))
        found["strata"].append(dealt.evaluations)
        found["clusters"].append(cluster_rows(rows, n, 16, np.random.default_rng(0), sample_size=1000).evaluations)
    assert np.diff(found["strata"]) == 50 * 1000 and np.diff(found["clusters"]) >= 1000 * 1000
    assert found["strata"][-1] <= 50 * (4000 + 2000) < found["clusters"][-1]


@pytest.mark.parametrize("seed", range(5))
def test_strata_below_half_of_the_rows_make_theta_large(seed):
    """Section 3.2: 2 Theta > M^2 then, and not if one stratum has three quarters of the rows."""
    small = np.random.default_rng(seed).integers(0, 4, M)
    assert np.bincount(small).max() < M / 2
    for strata, is_large in ((small, True), (np.arange(M) < 3 * M // 4, False)):
        assert (2 * np.sum(strata[:, None] != strata) > M**2) == is_large
