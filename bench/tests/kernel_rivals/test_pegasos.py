"""Pegasos against its pseudo-code, GossipSVMClassifier with one site, and LIBLINEAR's optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin_bench.kernel_rivals import Pegasos

ALPHA = 1e-2


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    return X, y


def objective(X, y, w, alpha=ALPHA):
    return alpha / 2 * w @ w + np.maximum(0, 1 - (2 * y - 1) * (X @ w)).mean()


def optimum(X, y, alpha=ALPHA):
    machine = LinearSVC(loss="hinge", C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    return objective(X, y, machine.fit(X, y).coef_[0], alpha)


@pytest.mark.parametrize("projection", [False, True])
def test_full_gradients_are_gossip_with_one_site(rows, projection):
    X, y = rows
    own = Pegasos(alpha=ALPHA, batch_size=None, projection=projection, average=False, max_iter=50).fit(X, y)
    gossip = GossipSVMClassifier(
        n_sites=1, alpha=ALPHA, gradient="local", step_size="pegasos", projection=projection, max_iter=50, tol=1e-12
    )
    with pytest.warns(match="max_iter"):
        gossip.fit(X, y)
    assert_allclose(own.coef_, gossip.coef_, rtol=1e-9)
    assert own.objective_ == pytest.approx(objective(X, y, own.coef_[0]))


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_it_is_the_pseudo_code(rows, projection, average):
    """Shalev-Shwartz et al. 2007, figure 1, and the mean over the last half."""
    X, y = rows
    own = Pegasos(
        alpha=ALPHA, batch_size=7, projection=projection, average=average, max_iter=31, fit_intercept=True,
        random_state=5,
    ).fit(sp.csr_array(X), y)  # fmt: skip
    rng = np.random.default_rng(np.random.RandomState(5).randint(2**31 - 1))
    X, signs = np.column_stack([X, np.ones(600)]), 2 * y - 1
    iterates, w = [], np.zeros(9)
    for t in range(1, 32):
        chosen = rng.integers(600, size=7)
        w = (1 - 1 / t) * w + sum(signs[i] * X[i] for i in chosen if signs[i] * (w @ X[i]) < 1) / (7 * ALPHA * t)
        if projection:
            w = min(1, 1 / (np.sqrt(ALPHA) * np.linalg.norm(w))) * w
        iterates.append(w)
    expected = np.mean(iterates[15:], axis=0) if average else w
    assert_allclose(np.append(own.coef_, own.intercept_), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("batch_size", "above"), [(None, 1e-4), (20, 5e-3), (1, 5e-2)])
def test_it_comes_near_the_optimum_of_liblinear(rows, batch_size, above):
    least = optimum(*rows)
    found = [
        Pegasos(alpha=ALPHA, batch_size=batch_size, max_iter=n, random_state=0).fit(*rows).objective_ / least - 1
        for n in (100, 3000)
    ]
    assert -1e-9 <= found[1] <= above and found[1] < 0.2 * found[0]


@pytest.mark.parametrize("reading", ["norm", "weights"])
def test_the_rule_ends_it_after_as_many_quiet_steps(rows, reading):
    X, y = rows
    own = Pegasos(alpha=ALPHA, batch_size=None, epsilon=0.02, reading=reading, n_quiet=4, max_iter=5000).fit(X, y)
    w, quiet, t, signs = np.zeros(8), 0, 0, 2 * y - 1
    while quiet < 4:
        t, last = t + 1, w
        active = signs * (X @ w) < 1
        w = (1 - 1 / t) * w + signs[active] @ X[active] / (600 * ALPHA * t)
        change = np.linalg.norm(w - last) if reading == "weights" else abs(np.linalg.norm(w) - np.linalg.norm(last))
        quiet = quiet + 1 if change < 0.02 else 0
    assert own.converged_ and own.n_iter_ == t < 5000
    assert_allclose(own.coef_[0], w, rtol=1e-9)  # the last weights, whether averages are asked for or not
    with pytest.warns(ConvergenceWarning, match="max_iter=5 steps"):
        few = Pegasos(alpha=ALPHA, batch_size=None, epsilon=1e-9, max_iter=5).fit(X, y)
    assert not few.converged_ and few.n_iter_ == 5


def test_with_the_projection_the_norm_is_quiet_at_once(rows):
    """The first vectors are projected on the ball, and have its radius."""
    found = [Pegasos(alpha=1e-4, epsilon=1e-3, projection=projection, random_state=0).fit(*rows)
             for projection in (True, False)]  # fmt: skip
    assert found[0].n_iter_ < 50 < found[1].n_iter_


def test_more_classes_are_one_against_the_rest(rows):
    X, y = rows
    y = np.where(X[:, 0] > 1, 2, y)
    machine = Pegasos(alpha=ALPHA, batch_size=None, max_iter=500).fit(X, y)
    assert machine.coef_.shape == (3, 8) and machine.objective_.shape == (3,)
    for k in range(3):
        assert machine.objective_[k] <= 1.02 * optimum(X, (y == k).astype(int))
    assert (machine.predict(X) == machine.decision_function(X).argmax(axis=1)).all()
