"""Several classes by one against one: scikit-learn's OneVsOneClassifier and SVC say what to expect."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsOneClassifier
from sklearn.preprocessing import scale
from sklearn.svm import SVC

import dimargin as dm
from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.strategies.block_pairs import PairSizes

MACHINES = {
    "hinge": dm.SVMClassifier(C=5.0, gamma=0.3, fit_intercept=True, random_state=0),
    "hinge without intercept": dm.SVMClassifier(C=5.0, gamma=0.3, random_state=0),
    "squared hinge": dm.SVMClassifier(C=5.0, gamma=0.3, loss="squared_hinge", random_state=0),
    "ODM": dm.ODMClassifier(gamma=0.3, random_state=0),
    "ODM with intercept": dm.ODMClassifier(gamma=0.3, fit_intercept=True, random_state=0),
}


def rows(n=400, n_classes=4, seed=0):
    weights = [0.4] + [0.6 / (n_classes - 1)] * (n_classes - 1)
    return make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, weights=weights,
        class_sep=0.6, flip_y=0.05, random_state=seed,
    )  # fmt: skip


def paired(machine, **parameters):
    return clone(machine).set_params(multi_class="one_vs_one", pair_scores="votes", **parameters)


@pytest.mark.parametrize("name", MACHINES)
def test_the_model_of_one_vs_one_classifier(name):
    X, y = rows()
    labels = np.array(["ash", "beech", "elm", "oak"])[y]
    machine, expected = paired(MACHINES[name]).fit(X, labels), OneVsOneClassifier(MACHINES[name]).fit(X, labels)
    assert_array_equal(machine.predict(X), expected.predict(X))
    assert_allclose(machine.decision_function(X), expected.decision_function(X), atol=1e-9)
    for attribute in ("objective_", "dual_objective_", "intercept_"):
        values = np.ravel([getattr(pair, attribute) for pair in expected.estimators_])
        assert_allclose(getattr(machine, attribute), values, rtol=1e-9, atol=1e-12)
    for (a, b), pair in zip(combinations(range(4), 2), expected.estimators_, strict=True):
        own = np.flatnonzero((y == a) | (y == b))[pair.support_]
        dense = np.zeros((3, len(y)))
        dense[:, machine.support_] = machine.dual_coef_
        assert_allclose(np.where(y == a, dense[b - 1], dense[a])[own], pair.dual_coef_[0], atol=1e-9)
    assert machine.duality_gap_ <= 1e-9 and machine.certificate_ == "global" and machine.status_ == "converged"


@pytest.mark.parametrize("n", [400, 1500])
def test_the_model_of_svc(n):
    X, y = rows(n)
    machine = paired(MACHINES["hinge"], tol=1e-7).fit(X, y)
    svc = SVC(C=5.0, gamma=0.3, tol=1e-6).fit(X, y)
    dense = np.zeros((2, 3, n))
    dense[0][:, machine.support_], dense[1][:, svc.support_] = machine.dual_coef_, svc.dual_coef_
    assert_allclose(dense[0], -dense[1], atol=2e-3)  # the other class of a pair is the positive one
    assert_allclose(machine.intercept_, -svc.intercept_, atol=1e-4)
    assert (np.diff(y[machine.support_]) >= 0).all() and abs(machine.n_support_ - svc.n_support_).max() <= 2
    assert_array_equal(machine.support_vectors_, X[machine.support_])
    assert (machine.predict(X) != svc.predict(X)).mean() < 0.01  # but for ties of votes
    for (a, b), objective in zip(combinations(range(4), 2), machine.dual_objective_, strict=True):
        signed = np.where(y == a, dense[1][b - 1], np.where(y == b, dense[1][a], 0.0))
        lower = np.abs(signed).sum() - 0.5 * signed @ rbf_kernel(X, gamma=0.3) @ signed
        assert objective == pytest.approx(lower, rel=1e-5)


def test_two_classes_are_the_same_either_way():
    X, y = rows(n_classes=2)
    ways = [clone(MACHINES["hinge"]).set_params(multi_class=way).fit(X, y) for way in ("one_vs_rest", "one_vs_one")]
    assert_array_equal(ways[0].decision_function(X), ways[1].decision_function(X))
    assert ways[1].dual_coef_.shape[0] == 1


@pytest.mark.parametrize("n", [300, 900])
@pytest.mark.parametrize("name", ["hinge", "ODM"])
def test_threads_and_the_order_of_rows_change_nothing(name, n):
    X, y = rows(n)
    X = np.round(64 * X) / 64  # whose sums are exact in any order
    first = paired(MACHINES[name], n_jobs=1).fit(X, y)
    second = paired(MACHINES[name], n_jobs=2).fit(X, y)
    order = np.random.default_rng(1).permutation(n)
    third = paired(MACHINES[name]).fit(X[order], y[order])
    assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert_array_equal(first.dual_coef_, second.dual_coef_)
    dense = np.zeros((2, 3, n))
    dense[0][:, first.support_], dense[1][:, order[third.support_]] = first.dual_coef_, third.dual_coef_
    assert_array_equal(dense[0], dense[1])


@pytest.mark.parametrize("name", ["hinge", "ODM"])
def test_other_forms_of_rows_and_kernels(name):
    X, y = rows(300)
    X = np.where(np.abs(X) < 0.4, 0.0, X)
    machine, queries = paired(MACHINES[name], tol=1e-6), X[:50] + 0.1
    expected = machine.fit(X, y).decision_function(queries)
    assert_allclose(clone(machine).fit(sp.csr_array(X), y).decision_function(queries), expected, atol=1e-6)
    given = paired(machine, kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    assert_allclose(given.decision_function(rbf_kernel(queries, X, gamma=0.3)), expected, atol=1e-6)
    own = paired(machine, kernel=partial(rbf_kernel, gamma=0.3)).fit(X, y)
    assert_allclose(own.decision_function(queries), expected, atol=1e-6)
    for other, data in ((given, rbf_kernel(X, gamma=0.3)), (own, X)):
        before = other.objective_
        assert_allclose(other.certify(data, y).objective_, before, rtol=1e-6)


def test_weights_are_rows_given_more_than_once():
    X, y = rows(250)
    weights = np.random.default_rng(0).integers(0, 3, 250)
    heavy = paired(MACHINES["hinge"]).fit(X, y, weights)
    repeated = paired(MACHINES["hinge"]).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose(heavy.objective_, repeated.objective_, rtol=1e-7)
    assert_allclose(heavy.decision_function(X), repeated.decision_function(X), atol=1e-5)
    svc = SVC(C=5.0, gamma=0.3, class_weight="balanced", tol=1e-7).fit(X, y)
    balanced = paired(MACHINES["hinge"], class_weight="balanced").fit(X, y)
    assert_allclose(balanced.intercept_, -svc.intercept_, atol=1e-4)


@pytest.mark.parametrize("name", ["hinge", "ODM"])
def test_the_certificate_is_computed_again(name):
    X, y = rows(700)
    weights = np.random.default_rng(0).integers(0, 3, 700)
    machine = paired(MACHINES[name]).fit(X, y, weights)
    found = machine.objective_, machine.dual_objective_, machine.duality_gap_
    machine.certify(X, y, weights)
    assert_allclose(machine.objective_, found[0], rtol=1e-4)
    assert_allclose(machine.dual_objective_, found[1], rtol=1e-4)
    machine.dual_coef_ = 0.9 * machine.dual_coef_
    assert machine.certify(X, y, weights).duality_gap_ > 5 * found[2]
    with pytest.raises(ValueError, match="not the rows"):
        machine.certify(X + 1.0, y, weights)
    with pytest.raises(TimeoutError, match=r"needs more than max_time=1e-09 s: 0 of 6 pairs of classes were done"):
        machine.certify(X, y, weights, max_time=1e-9)


@pytest.mark.parametrize("multi_class", ["one_vs_one", "one_vs_rest"])
def test_intercepts_are_in_the_middle_wherever_a_fit_starts(multi_class):
    """With a small C all coefficients are at bounds, and the optimal intercepts are an interval.

    One against one, a path of falling C ended at an end of it: a coefficient was below its bound by
    rounding.
    """
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    machine = dm.SVMClassifier(fit_intercept=True, warm_start=True, multi_class=multi_class, random_state=0)
    for C in (100.0, 10.0, 1.0, 0.1, 0.01, 0.001):
        machine.set_params(C=C).fit(X, y)
        expected = clone(machine).set_params(warm_start=False).fit(X, y)
        assert_allclose(machine.intercept_, expected.intercept_, atol=1e-6)


def test_a_warm_start_begins_at_the_solution():
    X, y = rows(700)
    machine = paired(MACHINES["hinge"], warm_start=True, tol=1e-6).fit(X, y)
    precise = machine.duality_gap_
    assert machine.set_params(tol=1e-2).fit(X, y).duality_gap_ < 2 * precise
    assert clone(machine).fit(X, y).duality_gap_ > 1e-4
    with pytest.raises(ValueError, match=r"previous fit with 'one_vs_rest', .* was with 'one_vs_one'"):
        machine.set_params(multi_class="one_vs_rest").fit(X, y)
    other = clone(MACHINES["hinge"]).set_params(multi_class="one_vs_rest", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"previous fit with 'one_vs_one', .* was with 'one_vs_rest'"):
        other.set_params(multi_class="one_vs_one").fit(X, y)
    for fitted in (machine.set_params(multi_class="one_vs_one"), other):  # "auto" goes on as before
        n_coefficients = len(fitted.dual_coef_)
        assert len(fitted.set_params(multi_class="auto").fit(X, y).dual_coef_) == n_coefficients


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"multi_class": "ovo"}, "multi_class must be one of 'auto', 'one_vs_rest', 'one_vs_one', got 'ovo'"),
        ({"strategy": "dc"}, "multi_class='one_vs_one' needs strategy 'auto' or 'exact', got 'dc'"),
        ({"n_levels": 2}, "n_levels=2 was set, but"),
        ({"stop_level": 1}, "stop_level=1 was set, but"),
        ({"memory_limit": 1000}, "memory_limit=1000 bytes is too small"),
    ],
)
def test_what_is_refused(parameters, message):
    machine = paired(MACHINES["hinge"]).set_params(**parameters)
    with pytest.raises((ValueError, MemoryError), match=message):
        machine.fit(*rows())


@pytest.mark.parametrize(("way", "n_coefficients"), [("one_vs_one", 2), ("auto", 2), ("one_vs_rest", 3)])
def test_a_search_trains_as_its_machine_says(way, n_coefficients):
    for n_classes, expected in ((3, n_coefficients), (2, 1)):
        X, y = rows(100, n_classes=n_classes)
        grid = {"lam": [10.0, 1000.0]}
        tuned = dm.ODMClassifierCV(dm.ODMClassifier(multi_class=way), grid, random_state=0).fit(X, y)
        assert tuned.best_params_["lam"] in grid["lam"] and tuned.dual_coef_.shape[0] == expected


@pytest.mark.parametrize(
    ("parameters", "n_coefficients"),
    [
        ({}, 3),
        ({"strategy": "exact"}, 3),
        ({"strategy": dm.Exact()}, 3),
        ({"strategy": "dc", "n_levels": 1}, 4),
        ({"n_levels": 1}, 4),
        ({"multi_class": "one_vs_rest"}, 4),
    ],
)
def test_auto_is_one_vs_one_where_pairs_are_solved_exactly(parameters, n_coefficients):
    assert clone(MACHINES["ODM"]).set_params(**parameters).fit(*rows()).dual_coef_.shape[0] == n_coefficients


def test_probabilities_and_margins():
    X, y = rows()
    calibrated = CalibratedClassifierCV(paired(MACHINES["hinge"]), ensemble=False, cv=3).fit(X, y)
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    assert calibrated.score(X, y) > 0.8
    machine = paired(MACHINES["ODM"]).fit(X, y)
    display = dm.MarginDistributionDisplay.from_estimator(machine, X, y)
    assert display.margins[0].shape == (400,) and (display.margins[0] > 0).mean() == machine.score(X, y)
    dm.ConvergenceDisplay.from_estimator(machine)


def test_progress_is_told_pair_by_pair(caplog):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")

    class Heard(Monitor):
        def __init__(self):
            super().__init__()
            self.levels, self.ended = [], []

        def level_begin(self, level, n_tasks):
            self.levels.append((level, n_tasks))

        def task_end(self, index):
            self.ended.append(index)

    machine, scores = paired(MACHINES["hinge"], verbose=1), dm.LevelScores(*rows())
    heard = Heard()
    with observed(machine, heard):
        machine.set_callbacks(scores).fit(*rows())
    assert scores.scores_ == [{"level": 0, "score": machine.score(*rows())}]
    assert heard.levels == [(0, 6)] and sorted(heard.ended) == list(range(6))
    assert "level 0: 6 pairs, " in caplog.text
    assert machine.history_[0]["partitions"] == 6 and 0 < machine.history_[0]["relative_gap"] <= machine.duality_gap_


def test_an_interrupt_ends_the_fit_without_a_change():
    class Impatient(Monitor):
        def task_end(self, index):
            raise KeyboardInterrupt

    machine = paired(MACHINES["hinge"]).fit(*rows())
    before = machine.dual_coef_
    with observed(machine, Impatient()), pytest.raises(KeyboardInterrupt):
        machine.fit(*rows(300))
    assert machine.dual_coef_ is before


def test_a_time_limit_leaves_a_model():
    X, y = rows(3000)
    machine = paired(MACHINES["hinge"], max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="6 of 6 pairs of classes missed the tolerance"):
        machine.fit(X, y)
    assert machine.status_ == "max_time"
    # of few rows of every class, and better than the largest class
    assert machine.score(X, y) > np.bincount(y).max() / len(y) and len(machine.support_) <= 4 * 16
    gap = machine.duality_gap_
    assert gap < 1 and machine.certify(X, y).duality_gap_ == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize("n_classes", [4, 12])
def test_values_do_not_depend_on_the_rows_beside(n_classes):
    X, y = rows(n_classes=n_classes)
    machine = paired(MACHINES["hinge"]).fit(X, y)
    one_by_one = np.concatenate([machine.decision_function(X[k : k + 1]) for k in range(40)])
    assert_array_equal(one_by_one, machine.decision_function(X)[:40])


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("name", MACHINES)
def test_certificates_of_many_pairs_are_those_of_each(name, kernel, monkeypatch):
    """Also of coefficients outside their boxes, and where rounding is much of a gap."""
    X, y = rows(300)
    machine = paired(MACHINES[name], kernel=kernel, tol=1e-10).fit(X, y)
    for factor in (1.0, 1.3):
        machine.dual_coef_ *= factor
        gap, objectives = machine.certify(X, y).duality_gap_, machine.objective_
        with monkeypatch.context() as patch:
            patch.setattr(PairSizes, "max_stored_rows", 0)  # one by one
            assert gap == pytest.approx(machine.certify(X, y).duality_gap_, rel=1e-6, abs=1e-10)
        assert_allclose(objectives, machine.objective_, rtol=1e-9)
        assert (gap <= 1e-10) == (factor == 1.0)


def test_one_vs_one_is_scikit_learns_word_for_it():
    X, y = rows()
    values = paired(MACHINES["hinge"], kernel="linear").fit(X, y).decision_function(X)
    svc = SVC(C=5.0, kernel="linear", decision_function_shape="ovr", tol=1e-8).fit(X, y)
    assert_allclose(values, svc.decision_function(X), atol=1e-3)
