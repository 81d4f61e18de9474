"""scikit-learn's estimator checks of the classes of `dimargin.svm`: they fail only where scikit-learn's own do."""

import warnings
from inspect import signature

import pytest
import sklearn.svm
from drop_in import LIBSVM, NAMES
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import dimargin.svm as ours

WEIGHTS = "check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"
SCALE = "gamma='scale' is the variance of the rows, however much they weigh"
INFEASIBLE = "nu=0.5 is infeasible for classes of so different weights"


def expected_failures(estimator):
    """Checks that cannot hold with the parameters of scikit-learn's class, with the reason: the only ones."""
    name = type(estimator).__name__
    found = dict.fromkeys(WEIGHTS, SCALE) if name in LIBSVM else {}
    return found | (dict.fromkeys([*WEIGHTS, "check_class_weight_classifiers"], INFEASIBLE) if name == "NuSVC" else {})


# An expected failure that passes is one too; scikit-learn before 1.8 cannot be told.
STRICT = {"xfail_strict": True} if "xfail_strict" in signature(parametrize_with_checks).parameters else {}


@parametrize_with_checks([getattr(ours, name)() for name in NAMES], expected_failed_checks=expected_failures, **STRICT)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name in NAMES for check in expected_failures(getattr(ours, name)())]
)
def test_the_expected_failures_are_those_of_scikit_learn(name, check):
    theirs = getattr(sklearn.svm, name)()
    with warnings.catch_warnings(), pytest.raises((AssertionError, ValueError)):
        warnings.simplefilter("ignore")
        getattr(estimator_checks, check)(name, theirs)


@pytest.mark.parametrize("check", WEIGHTS)
@pytest.mark.parametrize("name", LIBSVM)
def test_weights_are_repetitions_with_a_gamma_of_its_own(name, check):
    parameters = {"nu": 0.2} if name == "NuSVC" else {}
    getattr(estimator_checks, check)(name, getattr(ours, name)(gamma=0.1, **parameters))


@pytest.mark.parametrize("name", LIBSVM)
def test_weights_must_be_a_vector(name):
    with pytest.raises(ValueError, match=r"sample_weight must be a vector, got shape \(4, 2\)"):
        getattr(ours, name)().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], [[1.0, 1.0]] * 4)
