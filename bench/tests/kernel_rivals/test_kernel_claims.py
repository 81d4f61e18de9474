"""Claims that the papers of the rivals make themselves; docs/experiments.md has the list and the numbers."""

import numpy as np
import pytest
from linear_sites import objective, optimum, overlapping
from sklearn.datasets import load_svmlight_file, make_classification
from sklearn.svm import SVC

from dimargin_bench.kernel_rivals import FastFood, LaSVM, Pegasos, SpSVM, SVMPerf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "positive", "n_rows", "parameters"),
    [
        ("usps", 0, 7291, {"C": 1000.0, "gamma": 1 / 128}),
        ("a9a", 1, 5000, {"C": 100.0, "gamma": 0.005}),
    ],
)
def test_one_pass_of_lasvm_is_as_accurate_as_libsvm(data_folder, name, positive, n_rows, parameters):
    """Bordes et al. 2005, abstract: competitive misclassification rates after a single pass. USPS and Adult are its
    data."""
    X, y = load_svmlight_file(str(data_folder / f"{name}.bz2"))
    queries, answers = load_svmlight_file(str(data_folder / f"{name}.t.bz2"), n_features=X.shape[1])
    X, y, queries, answers = X.toarray()[:n_rows], y[:n_rows] == positive, queries.toarray(), answers == positive
    errors = [
        100 * (machine.fit(X, y).predict(queries) != answers).mean()
        for machine in (LaSVM(**parameters, random_state=0), SVC(**parameters))
    ]
    assert errors[0] < errors[1] + 0.3


@pytest.mark.parametrize("length", [0.5, 1.0, 2.0])
def test_the_variance_of_fastfood_is_that_of_its_theorem(length):
    """Le et al. 2013, arXiv:1408.3060, Lemma 7 and Theorem 9, for one block and rows at a distance v of `length`."""
    d, n_blocks = 16, 4000
    v = np.random.default_rng(1).normal(size=(1, d))
    v *= length / np.linalg.norm(v)
    fastfood = FastFood(n_components=d * n_blocks, gamma=0.5, random_state=0).fit(v)
    cosines = fastfood.transform(v)[0, : d * n_blocks].reshape(n_blocks, d) * np.sqrt(d * n_blocks)
    single = (1 - np.exp(-(length**2))) ** 2 / 2
    correlated = 6 * length**4 * (np.exp(-(length**2)) + length**2 / 3)
    sums = cosines.sum(axis=1)
    assert abs(cosines.mean() - np.exp(-(length**2) / 2)) < 4 * sums.std() / d / np.sqrt(n_blocks)
    assert cosines.var() == pytest.approx(single, rel=0.1)
    assert sums.var() <= d * (single + correlated)


def drawn(name, n, rng):
    """Breiman's artificial data, which the paper on SpSVM has from the benchmarks of Raetsch."""
    if name == "waveform":
        i = np.arange(1, 22)
        waves = np.maximum(6 - np.abs(i - np.array([[7], [11], [15]])), 0)
        kind, part = rng.integers(3, size=n), rng.random((n, 1))
        X = part * waves[kind] + (1 - part) * waves[(kind + 1) % 3] + rng.normal(size=(n, 21))
        return X, np.where(kind == 0, 1, -1)
    y, X = rng.choice([-1, 1], size=n), rng.normal(size=(n, 20))
    if name == "twonorm":
        return X + 2 / np.sqrt(20) * y[:, None], y
    return np.where(y[:, None] == 1, 2 * X, X + 2 / np.sqrt(20)), y


@pytest.mark.parametrize(("name", "C"), [("twonorm", 0.1), ("ringnorm", 1.0), ("waveform", 1.0)])
def test_spsvm_needs_far_fewer_basis_rows_than_support_vectors(name, C):
    """Keerthi et al. 2006, abstract: to come close to the accuracy of the support vector machine."""
    rng = np.random.default_rng(0)
    (X, y), (queries, answers) = drawn(name, 400, rng), drawn(name, 5000, rng)
    machine = SVC(C=C, gamma=0.02).fit(X, y)
    few = SpSVM(n_basis=20, C=C, gamma=0.02, offset=1.0, random_state=0).fit(X, y)
    assert machine.n_support_.sum() > 4 * 20
    assert few.score(queries, answers) > machine.score(queries, answers) - 0.01
    if name == "ringnorm":  # without a constant, 20 kernels around the inner class cannot make the outer one
        bare = SpSVM(n_basis=20, C=C, gamma=0.02, random_state=0).fit(X, y)
        assert bare.score(queries, answers) < machine.score(queries, answers) - 0.1


@pytest.mark.parametrize("projection", [True, False])
def test_pegasos_is_within_its_bounds(projection):
    """Shalev-Shwartz et al. 2011, Theorem 1: the mean of all T iterates is above the optimum by no more than
    ``c (1 + ln T) / (2 alpha T)``. Rakhlin et al. 2012, of the last half, which is what `average` gives:
    ``(2 + 2.5 ln 2) / 0.5  G^2 / (alpha T)``, so that ten times the steps leave a tenth."""
    (X, y), alpha, T, seeds = overlapping(), 0.1, 40, range(4)
    best, longest = optimum(X, y, alpha), np.linalg.norm(X, axis=1).max()

    def weights(seed, n_steps, average):
        machine = Pegasos(alpha, projection=projection, average=average, max_iter=n_steps, random_state=seed)
        return machine.fit(X, y).coef_[0]

    def above(weights):
        return objective(X, y, weights, alpha) - best

    constant = (alpha**0.5 + longest) ** 2 if projection else 4 * longest**2
    means = [np.mean([np.zeros(7), *(weights(k, t, False) for t in range(1, T))], axis=0) for k in seeds]
    assert 0 < np.mean([above(mean) for mean in means]) <= constant * (1 + np.log(T)) / (2 * alpha * T)
    few, many = (np.mean([above(weights(k, n, True)) for k in seeds]) for n in (300, 3000))
    assert 0 < many < few / 5
    assert few <= (2 + 2.5 * np.log(2)) / 0.5 * constant / (alpha * 300)


def test_svmperf_needs_as_many_planes_for_thirty_times_the_rows():
    """Joachims 2006, abstract and Theorem 3: training takes O(s n) time, since their number does not depend on n."""
    few, many = (
        SVMPerf(alpha=1e-3).fit(*make_classification(n, 20, n_informative=10, class_sep=0.7, random_state=0)).n_iter_
        for n in (1000, 30_000)
    )
    assert 100 < many < 1.2 * few
