"""scikit-learn's own tests of LinearSVC, with LinearSVMClassifier in its place.

The l1 penalty, and the bounds that belong to it, are not ours to test, nor are messages that name
LIBLINEAR.
"""

from inspect import signature

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import dimargin as dm

svm_tests = pytest.importorskip("sklearn.svm.tests.test_svm", reason="scikit-learn was installed without its tests")
sparse_tests = pytest.importorskip("sklearn.svm.tests.test_sparse")


class LinearSVC(ClassifierMixin, BaseEstimator):
    """LinearSVMClassifier with the parameters of LinearSVC."""

    def __init__(
        self, penalty="l2", loss="squared_hinge", *, dual="auto", tol=1e-4, C=1.0, multi_class="ovr",
        fit_intercept=True, intercept_scaling=1, class_weight=None, verbose=0, random_state=None, max_iter=1000,
    ):  # fmt: skip
        given = locals()
        self.__dict__ |= {name: given[name] for name in signature(LinearSVC).parameters}

    def fit(self, X, y, sample_weight=None):
        at_once = self.multi_class == "crammer_singer"
        self.machine_ = dm.LinearSVMClassifier(
            C=self.C, loss="hinge" if at_once else self.loss, tol=max(self.tol, 1e-12), max_iter=10_000,
            multi_class="crammer_singer" if at_once else "one_vs_rest", class_weight=self.class_weight,
            fit_intercept=self.fit_intercept, random_state=self.random_state, verbose=self.verbose,
            intercept_scaling=self.intercept_scaling if self.fit_intercept else None,
        ).fit(X, y, sample_weight)  # fmt: skip
        return self

    def __getattr__(self, name):
        if name not in ("coef_", "intercept_", "classes_") or "machine_" not in vars(self):
            raise AttributeError(name)
        return getattr(self.machine_, name)

    def __setattr__(self, name, value):
        if name in ("coef_", "intercept_"):
            setattr(self.machine_, name, value)
        else:
            super().__setattr__(name, value)

    def predict(self, X):
        return self.machine_.predict(X)

    def decision_function(self, X):
        return self.machine_.decision_function(X)

    def sparsify(self):
        self.machine_.sparsify()
        return self


TESTS = {
    "svm": [
        "test_linearsvc_crammer_singer", "test_linearsvc_fit_sampleweight", "test_crammer_singer_binary",
        "test_linearsvc_iris", "test_liblinear_set_coef", "test_auto_weight", "test_weight",
        "test_lsvc_intercept_scaling_zero", "test_linearsvc_verbose",
    ],
    "sparse": ["test_linearsvc", "test_linearsvc_iris"],
}  # fmt: skip


def arguments(test):
    """Values for the parameters that pytest would give to one of these tests."""
    known = {
        "global_random_seed": 42, "csr_container": svm_tests.CSR_CONTAINERS[0],
        "lil_container": svm_tests.LIL_CONTAINERS[0], "dok_container": sparse_tests.DOK_CONTAINERS[0],
    }  # fmt: skip
    return {name: known[name] for name in signature(test).parameters}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in TESTS.items() for name in names])
def test_of_scikit_learn(module, name, monkeypatch):
    tests = {"svm": svm_tests, "sparse": sparse_tests}[module]
    test = getattr(tests, name)
    monkeypatch.setattr(tests.svm, "LinearSVC", LinearSVC)
    test(**arguments(test))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_of_sample_weights(loss):
    test = svm_tests.test_linearsvm_liblinear_sample_weight
    known = {"SVM": LinearSVC, "params": {"loss": loss}, "global_random_seed": 42}
    test(**{name: known[name] for name in signature(test).parameters})
