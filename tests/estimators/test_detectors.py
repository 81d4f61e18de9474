"""CoreSetSVDD and OneClassCoreSetSVM: what they minimise, by independent means."""

import judge
import numpy as np
import pytest
import scipy.sparse as sp
from ball_reference import quadratic_optimum
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from dimargin import CoreSetSVDD, OneClassCoreSetSVM, minimum_enclosing_ball
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.kernels.functions import Kernel

VALUES = {
    "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=0.3),
    "linear": lambda X, Z: X @ Z.T,
    "poly": lambda X, Z: polynomial_kernel(X, Z, gamma=0.3, degree=2, coef0=1.0),
}


def cloud(n, seed=0):
    return np.random.default_rng(seed).normal([2.0, 0.0, -1.0], size=(n, 3))


def weights_of(detector, n):
    x = np.zeros(n)
    x[detector.support_] = detector.dual_coef_[0]
    assert x.min() >= 0 and x.sum() == pytest.approx(1)
    return x


@pytest.mark.parametrize("kernel", VALUES)
@pytest.mark.parametrize("n", [150, 1000])
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_description_by_a_ball(kernel, n, C):
    X, Z = cloud(n), cloud(50, seed=1) * 1.5
    options = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1.0, "tol": 1e-7, "random_state": 0}
    detector = CoreSetSVDD(C, **options).fit(X)
    K, x = VALUES[kernel](X, X), weights_of(detector, n)
    distances = K.diagonal() - 2 * K @ x + x @ K @ x
    excess = np.maximum(distances - detector.radius_**2, 0)
    primal, dual = detector.radius_**2 + C / 4 * excess @ excess, x @ K.diagonal() - x @ K @ x - x @ x / C
    assert detector.objective_ == pytest.approx(primal, rel=1e-6)
    assert detector.dual_objective_ == pytest.approx(dual, rel=1e-6)
    assert 0 <= primal - dual + 1e-12 <= 1e-5 * primal
    assert excess.sum() == pytest.approx(2 / C, rel=1e-2)
    if n == 150:
        best = quadratic_optimum(K + np.eye(n) / C, K.diagonal())
        assert detector.dual_objective_ == pytest.approx(best, rel=1e-5)
    own = {"rbf": np.ones(50), "linear": (Z**2).sum(axis=1), "poly": (0.3 * (Z**2).sum(axis=1) + 1) ** 2}[kernel]
    assert_allclose(detector.score_samples(Z), -(own - 2 * VALUES[kernel](Z, X) @ x + x @ K @ x), atol=1e-6)
    assert detector.offset_ == pytest.approx(-(detector.radius_**2) - 2 * excess.mean())
    assert_array_equal(detector.predict(Z) == 1, detector.score_samples(Z) >= detector.offset_)
    if kernel == "linear":
        assert_allclose(detector.center_, x @ X, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_no_ball_is_said(kernel):
    X = 0.1 * cloud(200)
    with pytest.warns(UserWarning, match="The radius of the ball is zero: C=0.01 is too small") as said:
        detector = CoreSetSVDD(0.01, kernel=kernel, gamma=0.3).fit(X)
    assert detector.radius_ == 0 and (detector.predict(X) == -1).mean() <= 0.5
    enough = float(str(said[0].message).split("above ")[1].split(" ")[0])
    assert CoreSetSVDD(1.1 * enough, kernel=kernel, gamma=0.3).fit(X).radius_ > 0


def test_no_row_outside_is_the_smallest_ball():
    X = cloud(800)
    for kernel in ("linear", "rbf"):
        detector = CoreSetSVDD(float("inf"), kernel=kernel, gamma=0.3, epsilon=1e-9).fit(X)
        ball = minimum_enclosing_ball(X, 0, kernel=kernel, gamma=0.3)
        assert detector.radius_ == pytest.approx(ball.radius, rel=1e-7)
        assert (detector.predict(X) == 1).all()


@pytest.mark.slow
def test_a_function_takes_the_way_of_kernels_without_a_constant_diagonal():
    X = cloud(700)
    named = CoreSetSVDD(1.0, gamma=0.3, tol=1e-7).fit(X)
    function = CoreSetSVDD(1.0, kernel=lambda a, b: rbf_kernel(a, b, gamma=0.3), tol=1e-7).fit(X)
    assert function.radius_ == pytest.approx(named.radius_, rel=1e-4)
    assert_allclose(function.score_samples(X), named.score_samples(X), atol=1e-3)


@pytest.mark.parametrize("kernel", VALUES)
@pytest.mark.parametrize("n", [150, 1000])
@pytest.mark.parametrize("C", [0.05, 5.0])
def test_one_class(kernel, n, C):
    X, Z = cloud(n), cloud(50, seed=1)
    options = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1.0, "tol": 1e-7, "random_state": 0}
    detector = OneClassCoreSetSVM(C, **options).fit(X)
    K, x = VALUES[kernel](X, X), weights_of(detector, n)
    rho, w = x @ K @ x + x @ x / C, K @ x
    slack = np.maximum(rho - w, 0)
    assert detector.offset_ == pytest.approx(rho - 2 * slack.mean())
    primal = (0.5 * x @ K @ x + C / 2 * slack @ slack) / rho**2
    assert detector.objective_ == pytest.approx(primal, rel=1e-5)
    assert slack.sum() == pytest.approx(1 / C, rel=1e-2)
    assert detector.duality_gap_ <= 1e-6
    if n == 150:
        products = K + np.eye(n) / C
        longest = products.diagonal().max()
        assert rho == pytest.approx(longest - quadratic_optimum(products, np.full(n, longest)), rel=1e-4)
    assert_allclose(detector.score_samples(Z), VALUES[kernel](Z, X) @ x, atol=1e-6)
    assert_array_equal(detector.predict(Z) == 1, detector.decision_function(Z) >= 0)


def test_values_computed_beforehand():
    X, Z = cloud(700), cloud(30, seed=2)
    named = OneClassCoreSetSVM(gamma=0.3, tol=1e-7, random_state=0).fit(X)
    given = OneClassCoreSetSVM(kernel="precomputed", tol=1e-7, random_state=0).fit(VALUES["rbf"](X, X))
    assert_allclose(given.score_samples(VALUES["rbf"](Z, X)), named.score_samples(Z), atol=1e-4)
    with pytest.raises(ValueError, match="give the kernel as a function"):
        CoreSetSVDD(kernel="precomputed").fit(VALUES["rbf"](X, X))


@pytest.mark.parametrize("make", [CoreSetSVDD, OneClassCoreSetSVM])
def test_outliers_are_found(make):
    """Rows of another distribution, which detectors have not seen, and a share that they have."""
    rng = np.random.default_rng(0)
    usual, strange = rng.normal(size=(6000, 4)), rng.uniform(-6, 6, size=(500, 4))
    detector = make(gamma=0.1, random_state=0).fit(usual[:4000])
    scores = detector.score_samples(np.vstack([usual[4000:], strange]))
    assert roc_auc_score(np.r_[np.ones(2000), np.zeros(500)], scores) > 0.97
    assert detector.duality_gap_ <= 1e-3 and detector.certificate_ == "global"
    mixed = np.vstack([usual[:1900], strange[:100]])
    labels = make(gamma=0.1, contamination=0.05, random_state=0).fit_predict(mixed)
    assert (labels == -1).sum() == 100 and (labels[1900:] == -1).sum() > 80
    weighted = make(gamma=0.1, contamination=0.05).fit(mixed, sample_weight=np.r_[np.ones(1900), np.zeros(100)])
    assert (weighted.predict(mixed[:1900]) == -1).sum() == 95


FEW_VALUES = {
    "one-hot of 4": np.eye(4)[np.random.default_rng(0).integers(0, 4, 400)],
    "three flags": np.random.default_rng(0).integers(0, 2, (300, 3)).astype(float),
    "ratings": np.random.default_rng(0).integers(0, 3, (500, 2)).astype(float),
    "a sixteenth": np.round(16 * cloud(600)) / 16,
    "equal rows": np.ones((50, 3)),
    "two rows": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "many columns": np.random.default_rng(0).normal(size=(300, 60)),
}


@pytest.mark.slow_after(1)
@pytest.mark.filterwarnings("ignore:The radius of the ball is zero", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [CoreSetSVDD, OneClassCoreSetSVM])
@pytest.mark.parametrize("rows", FEW_VALUES)
@pytest.mark.parametrize("C", [0.02, 1.0, 100.0])
def test_rows_with_many_equals_are_no_outliers(make, rows, C):
    """Slack puts all of them outside; rounding and the tolerance decide about rows of the boundary."""
    X = FEW_VALUES[rows]
    assert (make(C, random_state=0).fit_predict(X) == -1).mean() <= 0.3
    if make is CoreSetSVDD:  # corners of a cube are the farthest from its centre
        assert (make(C, kernel="linear", random_state=0).fit_predict(X) == -1).mean() <= 0.5


@pytest.mark.parametrize("make", [CoreSetSVDD, OneClassCoreSetSVM])
def test_a_rare_category_is_found(make):
    codes = np.random.default_rng(0).choice(4, 400, p=[0.5, 0.3, 0.19, 0.01])
    for X, weights in ((np.eye(4)[codes], None), (np.eye(4), np.bincount(codes))):
        detector = make(random_state=0).fit(X, sample_weight=weights)
        assert detector.predict(np.eye(4)).tolist() == [1, 1, 1, -1]


@pytest.mark.parametrize(("kernel", "shift"), [("rbf", 0.0), ("poly", 0.0), ("linear", 1e3), ("laplacian", 1e3)])
def test_rounding_puts_no_row_of_the_boundary_outside(kernel, shift):
    """Scores of a few rows, and of all, are sums in another order than those of the fit."""
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(200, 3)) + shift
        detector = CoreSetSVDD(float("inf"), kernel=kernel, coef0=1.0, random_state=0).fit(X)
        assert (detector.predict(X) == 1).all() and (detector.predict(X[detector.support_]) == 1).all()


@pytest.mark.parametrize("make", [CoreSetSVDD, OneClassCoreSetSVM])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_sites_that_agree(make, kernel):
    X, weights = cloud(200), np.random.default_rng(0).uniform(0.5, 2, 200)
    options = {"kernel": kernel, "gamma": 0.3, "C": 5.0, "random_state": 0}
    machine = make(n_sites=4, topology="ring", shards="unequal", **options).fit(X, sample_weight=weights)
    alone = make(**options).fit(X, sample_weight=weights)
    assert machine.status_ == "converged" and machine.duality_gap_ <= 1e-3
    assert machine.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    assert_allclose(machine.score_samples(X), alone.score_samples(X), rtol=0.02, atol=1e-3)
    assert machine.history_[-1]["core_sets"] == 1 and machine.n_iter_ == machine.history_[-1]["round"]
    given = make(n_sites=2, shards=np.arange(200) % 2, **options).fit(X, sample_weight=weights)
    assert given.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    with pytest.raises(ValueError, match="epsilon was set, but n_sites=4 does not use it"):
        make(n_sites=4, epsilon=0.1).fit(X)


def test_hard_balls_of_sites():
    X = cloud(300)
    machine = CoreSetSVDD(float("inf"), kernel="linear", n_sites=5, topology="star", random_state=0).fit(X)
    assert machine.radius_ == pytest.approx(minimum_enclosing_ball(X, 0).radius, rel=1e-3)


def test_sparse_rows_threads_and_order():
    X = cloud(1500)
    detector = CoreSetSVDD(gamma=0.3, random_state=0).fit(X)
    sparse = CoreSetSVDD(gamma=0.3, random_state=0).fit(sp.csr_array(X))
    assert_allclose(sparse.score_samples(X), detector.score_samples(X), atol=2e-3)
    one = CoreSetSVDD(gamma=0.3, random_state=0, n_jobs=1).fit(X)
    assert_array_equal(one.dual_coef_, detector.dual_coef_)
    shuffled = np.random.default_rng(1).permutation(1500)
    other = CoreSetSVDD(gamma=0.3, random_state=0).fit(X[shuffled])
    assert_array_equal(np.sort(shuffled[other.support_]), detector.support_)


@pytest.mark.parametrize("make", [CoreSetSVDD, OneClassCoreSetSVM])
def test_parameters_and_limits(make):
    X = cloud(2000)
    for options, words in (
        ({"C": 0}, "C must be"), ({"epsilon": 0}, "epsilon must be"), ({"contamination": 0.7}, "contamination must be"),
        ({"contamination": "some"}, "contamination must be 'auto' or a number"),
        ({"kernel": "sigmoid"}, "semi-definite"),
        ({"max_time": -1}, "max_time"), ({"tol": 0}, "tol must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            make(**options).fit(X)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        make().fit(X, sample_weight=np.zeros(2000))
    for kernel in ("rbf", "linear"):
        with pytest.warns(ConvergenceWarning, match="stopped before the tolerance was reached"):
            detector = make(kernel=kernel, max_time=1e-9).fit(X)
        assert detector.status_ == "max_time" and np.isfinite(detector.score_samples(X)).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sites_agree_on_rows_of_different_weights(kernel):
    """What softness adds to squared lengths differs from core-set to core-set where weights do."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, weights = rng.normal(size=(80, 3)), rng.uniform(0.05, 5, 80)
        whole, agreed = (
            CoreSetSVDD(0.5, kernel=kernel, random_state=0, n_sites=n).fit(X, sample_weight=weights) for n in (1, 5)
        )
        assert agreed.objective_ == pytest.approx(whole.objective_, rel=1e-3) and agreed.duality_gap_ <= 1e-3


def test_sites_that_agree_on_too_little_say_so(monkeypatch):
    loose = CoreSetSettings("margin", 0.5, C=1.0, kernel=Kernel("rbf", gamma=1.0))
    monkeypatch.setattr(CoreSetSettings, "for_gap", lambda *_: loose)
    with pytest.warns(ConvergenceWarning, match="stopped before the tolerance was reached"):
        detector = OneClassCoreSetSVM(gamma=1.0, n_sites=3).fit(np.random.default_rng(0).normal(size=(90, 2)))
    assert detector.status_ == "precision" and detector.duality_gap_ > 1e-3


@pytest.mark.parametrize("C", [1e-3, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 1e-4])
def test_a_ball_of_few_soft_rows_has_hardly_a_radius(C, epsilon):
    """Not zero to divide by: without a warning, every row ends within what was asked for."""
    detector = OneClassCoreSetSVM(C, epsilon=epsilon, random_state=0).fit(
        np.random.default_rng(0).normal(size=(600, 3))
    )
    assert detector.status_ in ("converged", "above_tol") and detector.history_[-1]["farthest"] <= 1 + epsilon


def test_descriptions_without_a_radius_say_why():
    X = np.random.default_rng(0).normal(size=(600, 3))
    with pytest.warns(UserWarning, match=r"radius of the ball is zero: C=0\.001 is too small; use a C above 0\.00"):
        CoreSetSVDD(1e-3, random_state=0).fit(X)
    with pytest.warns(UserWarning, match=r"The radius of the ball is zero: epsilon=0\.1 is too large for C=0\.01"):
        CoreSetSVDD(1e-2, epsilon=0.1, random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_plane_whose_length_is_rounding():
    """Its square was negative then, and with it rho, and bounds of rounding that are divided by rho."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, weights = 1e4 * rng.normal(size=(20, 2)), rng.uniform(0.5, 2, 20)
        machine = OneClassCoreSetSVM(C=100.0, kernel="poly", gamma=0.5, degree=3, coef0=0.0, tol=0.1)
        machine.fit(X, sample_weight=weights)
        kernel = {"kernel": "poly", "gamma": 0.5, "degree": 3, "coef0": 0.0}
        problem = judge.Problem(X, np.ones((1, 20)), weights, judge.SquaredHinge(100.0), kernel)
        x = judge.signed_coefficients(problem, machine.support_, machine.dual_coef_)[0]
        rho = judge.rho_of(machine, problem, x, 100.0)
        assert rho > 0 and not judge.complaints(machine, judge.judge_plane(problem, x, rho, 100.0))
