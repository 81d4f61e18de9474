"""Calibration of trained machines: the same probabilities as scikit-learn's, which trains and calibrates in one fit."""

import bz2
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_svmlight_file, make_classification
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from dimargin import ODMClassifier, SVMClassifier
from dimargin.estimators import calibration
from dimargin.estimators.calibration import CalibrationRows, check_method
from dimargin.estimators.fit_progress import Monitor
from dimargin.problems.one_vs_one import PAIR_SCORES

HAS_TEMPERATURE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
METHODS = ["sigmoid", "isotonic", *(["temperature"] if HAS_TEMPERATURE else [])]
TEXTS = np.array(["ham", "spam", "eggs"])


def rows(n_classes=2, n=300, seed=0):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.1, random_state=seed
    )
    return minmax_scale(X), y


def calibrated(machine, X, y, method, weights=None):
    split = CalibrationRows.split(X, y, weights, 0)
    return split.calibrate(machine, split.decision_values(machine), method)


def reference(machine, method):
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return CalibratedClassifierCV(machine, method=method, cv=folds, ensemble=False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_one_fit_by_scikit_learn(n_classes, method):
    X, y = rows(n_classes)
    weights, labels = np.random.default_rng(0).uniform(0.5, 2, len(y)), TEXTS[y]
    machine = ODMClassifier(random_state=0).fit(X, labels, sample_weight=weights)
    model = calibrated(machine, X, labels, method, weights)
    theirs = reference(ODMClassifier(random_state=0), method).fit(X, labels, sample_weight=weights)
    assert_array_equal(model.predict_proba(X), theirs.predict_proba(X))
    assert_array_equal(model.predict(X), np.unique(labels)[model.predict_proba(X).argmax(axis=1)])
    assert model.calibrated_classifiers_[0].estimator is machine and {*vars(model)} == {*vars(theirs)}


@pytest.mark.parametrize("given", ["sparse", "precomputed"])
def test_sparse_rows_and_kernel_values(given):
    X, y = rows()
    X = sp.csr_array(X) if given == "sparse" else rbf_kernel(X)
    machine = SVMClassifier(kernel="precomputed" if given == "precomputed" else "rbf", random_state=0)
    model = calibrated(machine.fit(X, y), X, y, "sigmoid")
    assert_array_equal(model.predict_proba(X), reference(machine, "sigmoid").fit(X, y).predict_proba(X))


@pytest.mark.parametrize("method", METHODS)
def test_labels_do_not_matter(method):
    """scikit-learn 1.9 fits a useless temperature to numbers other than 0, 1 and so on."""
    X, y = rows()
    expected = calibrated(SVMClassifier(random_state=0).fit(X, y), X, y, method).predict_proba(X)
    for labels in (
        np.array([-1, 1]),
        np.array([3.0, 7.0]),
        np.array([False, True]),
        np.array(["a", "b"], dtype=object),
    ):
        model = calibrated(SVMClassifier(random_state=0).fit(X, labels[y]), X, labels[y], method)
        assert_array_equal(model.predict_proba(X), expected)
        assert_array_equal(model.predict(X), labels[expected.argmax(axis=1)])


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    X, y = rows()
    weights = np.repeat([1.0, 0.0], [200, 100])
    y[weights == 0] = 2  # This class has no row with weight.
    machine = SVMClassifier(random_state=0).fit(X[:200], y[:200])
    expected = calibrated(machine, X[:200], y[:200], "sigmoid").predict_proba(X)
    assert_array_equal(calibrated(machine, X, y, "sigmoid", weights).predict_proba(X), expected)


def test_small_classes_have_fewer_folds_and_single_rows_are_refused():
    X, y = rows(3, n=90)
    kept = np.r_[np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:3]]
    split = CalibrationRows.split(X[kept], y[kept], None, 0)
    assert len(split.folds) == 3
    machine = SVMClassifier(random_state=0).fit(X[kept], y[kept])
    assert split.calibrate(machine, split.decision_values(machine), "sigmoid").cv == 3
    with pytest.raises(ValueError, match="two rows or more of every class; class '2' has one"):
        CalibrationRows.split(X[kept[:-2]], y[kept[:-2]], None, 0)


def test_an_unknown_method_and_one_of_a_later_version_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="must be one of sigmoid, isotonic, temperature, got 'platt'"):
        check_method("platt")
    monkeypatch.setattr(calibration.sklearn, "__version__", "1.7.2")
    check_method("isotonic")
    with pytest.raises(ValueError, match=r"needs scikit-learn 1.8 or newer; 1.7.2 is installed"):
        check_method("temperature")


class LimitedMachine(SVMClassifier):
    """Machine that records the time limits of all fits."""

    limits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.limits.append(self.max_time)
        return super().fit(X, y, sample_weight)


def test_folds_share_the_time_limit(monkeypatch):
    X, y = rows()
    machine = LimitedMachine(random_state=0).fit(X, y)
    machine.limits.clear()
    clock = SimpleNamespace(perf_counter=itertools.count(0.0, 10.0).__next__)
    monkeypatch.setattr(calibration, "time", clock)
    CalibrationRows.split(X, y, None, 0).decision_values(machine, 90.0)  # Each fold takes ten seconds.
    assert machine.limits == [80 / 5, 70 / 4, 60 / 3, 50 / 2, 40]
    assert machine.max_time is None


def test_an_interruption_ends_the_folds():
    X, y = rows()
    machine, monitor, ended = LimitedMachine(random_state=0).fit(X, y), Monitor(), []

    def fold_end(number):
        ended.append(number)
        if number == 1:
            monitor.interrupted.set()

    machine.limits.clear()
    assert CalibrationRows.split(X, y, None, 0).decision_values(machine, None, monitor, fold_end) is None
    assert ended == [0, 1] and len(machine.limits) == 3


def test_probabilities_of_several_classes_are_better_than_on_votes():
    """Votes jump, so that they tell less about rows near the border of two classes."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, stratify=y, random_state=0)
    model, votes = (CalibratedClassifierCV(SVMClassifier(pair_scores=rule), ensemble=False) for rule in PAIR_SCORES)
    losses = [log_loss(y_test, one.fit(X, y).predict_proba(X_test)) for one in (model, votes)]
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svmguide1", "phishing", "cod-rna", "ijcnn1", "usps"])
def test_the_log_loss_is_that_of_svc(name, data_folder):
    with bz2.open(data_folder / f"{name}.bz2") as lines:
        X, y = load_svmlight_file(lines)
    X = minmax_scale(X.toarray())
    X, X_test, y, y_test = train_test_split(X, y, train_size=1500, test_size=1500, stratify=y, random_state=0)
    y, y_test = (np.searchsorted(np.unique(y), given) for given in (y, y_test))
    for method in METHODS:
        machine = SVMClassifier(pair_scores="votes", tol=1e-5, random_state=0).fit(X, y)
        model = calibrated(machine, X, y, method)
        theirs = reference(SVC(tol=1e-5), method).fit(X, y)
        ours, other = (log_loss(y_test, one.predict_proba(X_test)) for one in (model, theirs))
        assert ours == pytest.approx(other, rel=0.01), method
