"""`patch_sklearn`, `unpatch_sklearn`, and their switch."""

import logging
import subprocess
import sys

import numpy as np
import pytest
import sklearn.svm
from drop_in import LIBSVM, dense, rows, targets_for

import dimargin
import dimargin.svm as ours
from dimargin.svm.patching import NAMES, SWITCH

THEIRS = {name: getattr(sklearn.svm, name) for name in NAMES}


@pytest.fixture(autouse=True)
def unpatched(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    yield
    dimargin.unpatch_sklearn()


def in_place():
    return {name for name in NAMES if getattr(sklearn.svm, name) is getattr(ours, name)}


def test_names_are_all_public_classes():
    assert sorted(NAMES) == sorted(ours.__all__)
    assert all(kind.__module__ == "sklearn.svm._classes" for kind in THEIRS.values())


@pytest.mark.parametrize(("names", "replaced"), [
    (None, list(NAMES)), ("SVC", ["SVC"]), (["NuSVR", "LinearSVC"], ["NuSVR", "LinearSVC"]), ([], []),
])  # fmt: skip
def test_classes_are_replaced_and_put_back(names, replaced):
    assert dimargin.patch_sklearn(names) == replaced
    assert in_place() == set(replaced)
    assert dimargin.patch_sklearn(names) == replaced  # Twice is as once.
    dimargin.unpatch_sklearn()
    assert {name: getattr(sklearn.svm, name) for name in NAMES} == THEIRS
    dimargin.unpatch_sklearn()


def test_later_names_are_added():
    dimargin.patch_sklearn("SVC")
    dimargin.patch_sklearn("SVR")
    assert in_place() == {"SVC", "SVR"}


def test_unknown_names_replace_nothing():
    with pytest.raises(ValueError, match=r"names must be among LinearSVC, .*got 'KMeans', 3"):
        dimargin.patch_sklearn(["SVC", "KMeans", 3])
    assert not in_place()


def test_the_switch_leaves_scikit_learns_classes(monkeypatch, caplog):
    monkeypatch.setenv(SWITCH, "0")
    with caplog.at_level(logging.INFO, logger="dimargin"):
        assert dimargin.patch_sklearn() == []
    assert not in_place() and "DIMARGIN_ACCELERATE=0" in caplog.text
    monkeypatch.setenv(SWITCH, "1")
    assert dimargin.patch_sklearn() == list(NAMES)


def test_the_log_says_what_is_replaced(caplog):
    with caplog.at_level(logging.INFO, logger="dimargin"):
        dimargin.patch_sklearn(["SVC", "SVR"])
    assert caplog.messages == ["dimargin.svm is in the place of sklearn.svm for SVC, SVR"]


@pytest.mark.parametrize("name", LIBSVM)
def test_what_has_no_certificate_is_left_to_scikit_learn_while_classes_are_replaced(name):
    X, y, targets = rows(0)
    y = targets_for(name, y, targets)
    dimargin.patch_sklearn()
    machine = getattr(sklearn.svm, name)(kernel="sigmoid").fit(X, y)
    theirs = THEIRS[name](kernel="sigmoid").fit(X, y)
    np.testing.assert_array_equal(dense(machine.dual_coef_), dense(theirs.dual_coef_))
    np.testing.assert_array_equal(machine.predict(X), theirs.predict(X))
    with pytest.raises(ValueError, match="sigmoid"):
        getattr(sklearn.svm, name)(kernel="sigmoid", allow_uncertified=False).fit(X, y)
    dimargin.unpatch_sklearn()
    with pytest.raises(ValueError, match="sigmoid"):
        getattr(ours, name)(kernel="sigmoid").fit(X, y)


def test_imports_after_the_call_find_our_classes():
    script = (
        "import dimargin; dimargin.patch_sklearn()\n"
        "from sklearn.svm import SVC, LinearSVC\n"
        "from sklearn.ensemble import BaggingClassifier\n"
        "from sklearn.datasets import load_iris\n"
        "X, y = load_iris(return_X_y=True)\n"
        "model = BaggingClassifier(SVC(), n_estimators=2, random_state=0).fit(X, y)\n"
        "print(SVC.__module__, LinearSVC.__module__, model.estimators_[0].duality_gap_ < 1e-3)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["dimargin.svm.libsvm", "dimargin.svm.linear", "True"]
