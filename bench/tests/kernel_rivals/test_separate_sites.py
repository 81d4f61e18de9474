"""Pseudo-distributed machines against those that are trained, averaged and voted by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dimargin_bench.kernel_rivals import PseudoDistributed, SVMPerf, pseudo_distributed


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 8, n_informative=5, n_clusters_per_class=1, class_sep=1.5, random_state=1)
    return X, np.array(["no", "yes"])[y]


@pytest.mark.parametrize("kind", [LinearSVC(random_state=0), SVMPerf(), LogisticRegression()], ids=str)
def test_linear_machines_are_averaged(rows, kind):
    X, y = rows
    site = np.arange(900) % 4
    machine = pseudo_distributed(kind, n_sites=4, shards=site).fit(X, y)
    own = [type(kind)(**kind.get_params()).fit(X[site == k], y[site == k]) for k in range(4)]
    assert_allclose(machine.coef_, np.mean([one.coef_ for one in own], axis=0), rtol=1e-3)
    assert_allclose(machine.intercept_, np.mean([one.intercept_ for one in own], axis=0), rtol=1e-2, atol=1e-3)
    assert_allclose(machine.decision_function(X), np.mean([one.decision_function(X) for one in own], axis=0), atol=1e-2)
    assert machine.score(X, y) > 0.9
    assert_array_equal(machine.site_of_rows_, site)


@pytest.mark.parametrize(
    "kind",
    [
        RandomForestClassifier(10, random_state=0),
        AdaBoostClassifier(n_estimators=10, random_state=0),
        MLPClassifier((10,), max_iter=400, random_state=0),
        make_pipeline(StandardScaler(), LinearSVC(random_state=0)),
        SVC(kernel="rbf"),
    ],
    ids=lambda kind: type(kind).__name__,
)
@pytest.mark.parametrize("combine", ["average", "vote"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_others_are_averaged_by_what_they_say_or_voted(rows, kind, combine):
    X, y = rows
    machine = pseudo_distributed(kind, n_sites=3, combine=combine, random_state=1).fit(X[:600], y[:600])
    assert not hasattr(machine, "coef_")
    if combine == "vote":
        votes = sum(np.where(one.predict(X) == "yes", 1, -1) for one in machine.estimators_) / 3
        assert_allclose(machine.decision_function(X), votes)
    elif hasattr(kind, "predict_proba"):
        expected = np.mean([one.predict_proba(X) for one in machine.estimators_], axis=0)
        assert_allclose(machine.decision_function(X), expected[:, 1] - expected[:, 0])
    else:
        expected = np.mean([one.decision_function(X) for one in machine.estimators_], axis=0)
        assert_allclose(machine.decision_function(X), 2 * expected)
    assert machine.score(X[600:], y[600:]) > 0.85
    if hasattr(kind, "random_state"):
        assert len({one.random_state for one in machine.estimators_}) == 3


@pytest.mark.parametrize("kind", [LinearSVC(random_state=0), KNeighborsClassifier(3)], ids=str)
def test_sites_that_stay_apart_have_accuracies_of_their_own(rows, kind):
    X, y = rows
    site = np.arange(600) % 4
    machine = pseudo_distributed(kind, 4, shards=site, combine="none").fit(X[:600], y[:600])
    own = [type(kind)(**kind.get_params()).fit(X[:600][site == k], y[:600][site == k]) for k in range(4)]
    scores = (machine.site_predictions(X[600:]) == y[600:]).mean(axis=1)
    assert_allclose(scores, [one.score(X[600:], y[600:]) for one in own], atol=0.01)
    assert not hasattr(machine, "coef_") and machine.score(X[600:], y[600:]) == scores[0]  # the first site answers
    assert machine.site_seconds_.shape == (4,) and (machine.site_seconds_ > 0).all()


@pytest.mark.parametrize("combine", ["average", "vote"])
@pytest.mark.parametrize("kind", [LinearSVC(), RandomForestClassifier(5), SVC(gamma=0.3)], ids=str)
def test_a_site_of_one_class_says_that_class(rows, kind, combine):
    """Of three sites, one has both classes, and two have "yes" only: so they say, and outvote it."""
    X, y = rows
    site = np.where(y == "no", 0, np.arange(900) % 3)
    machine = pseudo_distributed(kind, 3, shards=site, combine=combine, random_state=0).fit(X, y)
    own = machine.estimators_[0]
    assert [one.predict(X[:2]).tolist() for one in machine.estimators_[1:]] == [["yes"] * 2] * 2
    values = machine.decision_function(X)
    if combine == "vote":
        assert_allclose(values, (2 + np.where(own.predict(X) == "yes", 1, -1)) / 3)
        assert set(machine.predict(X)) == {"yes"}
    elif isinstance(kind, LinearSVC):
        assert_allclose(values, (own.decision_function(X) + 2) / 3)
    elif isinstance(kind, SVC):
        assert_allclose(values, 2 * (own.decision_function(X) + 2) / 3)
    else:
        assert_allclose(values, (2 * own.predict_proba(X)[:, 1] - 1 + 2) / 3)


def test_when_every_site_has_one_class_the_majority_of_sites_decides(rows):
    X, y = rows
    site = np.where(y == "no", 0, 1 + np.arange(900) % 2)
    for combine in ("average", "vote"):
        machine = pseudo_distributed(LinearSVC(), 3, shards=site, combine=combine).fit(X, y)
        assert set(machine.predict(X)) == {"yes"}
        assert_allclose(machine.decision_function(X), 1 / 3)


@pytest.mark.parametrize("kind", [LinearSVC(), LogisticRegression(max_iter=1000), SVC()], ids=str)
def test_classes_that_a_site_has_not_seen_are_none_for_it(kind):
    X, y = load_iris(return_X_y=True)
    site = np.where(y == 2, 1, np.arange(150) % 2)  # the first site has two classes, the second all
    machine = pseudo_distributed(kind, 2, shards=site).fit(X, y)
    first, second = machine.estimators_
    assert first.classes_.tolist() == [0, 1]
    if isinstance(kind, SVC):
        f = first.decision_function(X)
        expected = (np.column_stack([-f, f, -np.ones(150)]) + second.decision_function(X)) / 2
        assert_allclose(machine.decision_function(X), expected)
    else:
        f = first.decision_function(X)
        expected = (np.column_stack([-f, f, -np.ones(150)]) + second.decision_function(X)) / 2
        assert_allclose(machine.decision_function(X), expected, atol=1e-9)
        assert machine.coef_.shape == (3, 4)
    assert machine.score(X, y) > 0.6


def test_an_svc_of_three_classes_is_not_one_against_the_rest():
    """Its three rows of coefficients are those of pairs."""
    X, y = load_iris(return_X_y=True)
    machine = pseudo_distributed(SVC(kernel="linear"), 2, random_state=0).fit(X, y)
    assert not hasattr(machine, "coef_") and machine.score(X, y) > 0.9


def test_a_second_fit_forgets_the_coefficients_of_the_first(rows):
    machine = pseudo_distributed(LinearSVC(), 2, random_state=0).fit(*rows)
    assert hasattr(machine, "coef_")
    assert not hasattr(machine.set_params(combine="vote").fit(*rows), "coef_")


def test_sparse_rows_and_sites_without_rows(rows):
    X, y = rows
    site = 2 * (np.arange(900) % 2)
    dense, sparse = (
        pseudo_distributed(LinearSVC(), 4, shards=site, random_state=0).fit(make(X), y)
        for make in (np.array, sp.csr_array)
    )
    assert len(dense.estimators_) == 2
    assert_allclose(dense.decision_function(X), sparse.decision_function(sp.csr_array(X)), rtol=1e-6)


def test_what_has_no_values_can_only_vote(rows):
    class Voter(KNeighborsClassifier):
        predict_proba = None

        def __getattribute__(self, name):
            if name == "predict_proba":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(ValueError, match="which Voter has not; use combine='vote'"):
        PseudoDistributed(Voter(), 2).fit(*rows)
    assert PseudoDistributed(Voter(), 2, combine="vote").fit(*rows).score(*rows) > 0.9
