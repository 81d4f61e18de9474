"""scikit-learn's estimator checks, of every public estimator with every choice that its parameters offer.

The list is derived: from `dimargin.__all__`, and from the choices that docstrings show,
``kernel : {"linear", ...}``.
"""

import inspect
import re
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import dimargin as dm
from dimargin.estimators.docstrings import parameter_texts
from dimargin.strategies import STRATEGIES, Options

STOCHASTIC = ("svrg", "csvrg", "dsvrg")  # solvers
SLOW = (*STOCHASTIC, "cocoa")  # solvers that need not converge on the columns of the checks
# parameters whose choices change numbers, not what is done with rows; or are of several sites
SAME_PATH = {"gamma", "shards"}
# what the checks of an estimator begin from, where its defaults would take minutes
BEGIN = {
    dm.GossipSVMClassifier: {"n_sites": 3, "alpha": 1e-2, "max_iter": 100},
    dm.ODMClassifierCV: {"param_grid": {"lam": [1e3, 1e5]}, "cv": 2},
    dm.SVMClassifierCV: {"param_grid": {"C": [1.0, 10.0]}, "cv": 2},
    dm.LinearSVMClassifierCV: {"Cs": [1.0, 10.0], "cv": 2},
    dm.LinearODMClassifierCV: {"lams": [1e3, 1e5], "cv": 2},
}

# what a choice needs for the rows of the checks
MORE = {
    "crammer_singer": {"intercept_scaling": 1.0},
    "poly": {"degree": 2, "coef0": 1.0},  # with a constant, as polynomials are used
    **{solver: {"max_iter": 20} for solver in SLOW},  # more would take minutes
}


class OwnKernel:
    """A kernel of a user's; a function would have its address in the names of tests."""

    def __call__(self, X, Z):
        return linear_kernel(X, Z)

    def __repr__(self):
        return "own"


# combinations
BESIDE = [
    dm.ODMClassifier(kernel=OwnKernel()),
    dm.ODMClassifier(kernel="linear", fit_intercept=True),
    dm.ODMClassifier(strategy="dc", n_levels=1, branching=3, stop_level=1),
    dm.ODMClassifier(strategy=dm.DiODM(early_stop=False), n_levels=2, branching=2, kernel="laplacian"),
    dm.SVMClassifier(loss="squared_hinge", fit_intercept=True),
    dm.SVMClassifier(kernel="linear", fit_intercept=True),
    dm.SVMClassifier(strategy="diodm", n_levels=1, branching=2, fit_intercept=True),
    dm.SVMClassifier(strategy="dc", n_levels=1, branching=3, stop_level=1, fit_intercept=True),
    dm.SVMClassifier(loss="squared_hinge", strategy="landmark", fit_intercept=True),
    dm.SVMClassifier(multi_class="one_vs_one", fit_intercept=True),
    dm.SVMRegressor(kernel=OwnKernel()),
    dm.SVMRegressor(strategy="dc", n_levels=1, branching=3, stop_level=1),
    dm.SVMRegressor(loss="squared_epsilon_insensitive", epsilon=0.0, fit_intercept=False),
    dm.LinearSVMRegressor(loss="squared_epsilon_insensitive", intercept_scaling=1.0),
    dm.CoreSetSVMClassifier(kernel="linear", C=10.0, epsilon=1e-5),
    dm.CoreSetSVDD(contamination=0.1),
    dm.OneClassCoreSetSVM(epsilon=1e-4),
    dm.LinearODMClassifier(lam=20.0, upsilon=0.4, theta=0.2, solver=dm.LinearNewton("conjugate_gradients"), tol=1e-10),
    dm.LinearODMClassifier(fit_intercept=False),
    dm.GossipSVMClassifier(
        n_sites=2, alpha=1e-2, gradient="local", step_size="pegasos", batch_size=5, max_iter=100, fit_intercept=True
    ),
    dm.ODMClassifierCV(dm.LinearODMClassifier(), cv=2),
]
WEIGHTS = ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"]


def public_estimators():
    """Classes of `dimargin.__all__` that scikit-learn can fit."""
    found = [getattr(dm, name) for name in dm.__all__]
    return [
        kind
        for kind in found
        if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and not issubclass(kind, Options)
    ]


def choices(kind):
    """Names of parameters, and what their descriptions offer."""
    for name, text in parameter_texts(kind).items():
        if name not in SAME_PATH and (offered := re.match(r"\{([^}]*)\}", text)):
            yield name, re.findall(r'"(\w+)"', offered[1])


def estimators_of(kind):
    """One with what it begins from, and one for every other choice of a parameter."""
    begin = BEGIN.get(kind, {})
    yield kind(**begin)
    defaults = kind().get_params(deep=False)
    for name, offered in choices(kind):
        for value in offered:
            if value == defaults[name]:
                continue
            own = {name: value} | MORE.get(value, {})
            if name == "strategy":  # the rows of the checks are too few for a tree unless one is asked for
                if "n_levels" in STRATEGIES[value].uses:
                    own |= {"n_levels": 1, "branching": 2}
                if STRATEGIES[value].needs_smooth_loss and "loss" in defaults:
                    own["loss"] = f"squared_{defaults['loss']}"
            if value in ("newton", "dsvrg") and "loss" in defaults:  # others have no derivative
                own["loss"] = f"squared_{defaults['loss']}"
            yield kind(**begin | own)


ESTIMATORS = [estimator for kind in public_estimators() for estimator in estimators_of(kind)] + BESIDE


GIVES_ROWS = "the check gives rows where kernel='precomputed' asks for their kernel values"
DRAWS_ROWS = (
    "rows are drawn at random, and a row of weight two is not drawn as two rows are: machines are alike within their "
    "tolerance only"
)
VISITS_ROWS = "coordinate descent visits a row given twice twice: machines are alike within their tolerance only"
NO_LINE = (
    "the heavy class is to have 87% of the rows, but without an intercept a boundary goes through the origin, and no "
    "line through it has more than 70% of these rows on one side"
)
ONE_ROW = "the error says that one row cannot be divided into two partitions, in other words than the check's"
NEAREST = "kernel values are nearly zero, and without an intercept the nearest training row decides, whatever it weighs"


def expected_failures(estimator):
    """Checks that cannot hold by the nature of an estimator, with the reason: the only ones."""
    parameters = estimator.get_params(deep=False)
    kernel, found = str(parameters.get("kernel")), {}
    no_intercept = not parameters.get("fit_intercept", True)
    if no_intercept and (kernel in ("linear", "own") or isinstance(estimator, dm.LinearODMClassifier)):
        found["check_class_weight_classifiers"] = NO_LINE
    has_hinge = isinstance(estimator, dm.LinearSVMClassifierCV) and estimator.loss == "hinge"
    # Losses without a derivative take Newton steps on the few columns of the checks.
    kinds = dm.LinearSVMClassifier, dm.LinearSVMRegressor
    takes_steps = type(estimator) in kinds and estimator.loss in ("hinge", "epsilon_insensitive")
    if (
        has_hinge
        or is_at_once(estimator)
        or parameters.get("solver") == "cocoa"
        or (parameters.get("solver") == "cd" and not takes_steps)
    ):
        found |= dict.fromkeys(WEIGHTS, VISITS_ROWS)
    if isinstance(estimator, dm.SVMRegressor) and estimator.strategy in ("diodm", "cascade", "dip"):
        found["check_fit2d_1sample"] = ONE_ROW
    if parameters.get("solver") in STOCHASTIC:
        found |= dict.fromkeys(WEIGHTS, DRAWS_ROWS)
    if kernel == "precomputed":
        checks = ["check_positive_only_tag_during_fit", "check_estimators_dtypes", "check_estimators_nan_inf"]
        if is_outlier_detector(estimator):
            checks += ["check_outliers_fit_predict", "check_outliers_train"]
        found |= dict.fromkeys(checks, GIVES_ROWS)
        if no_intercept and is_classifier(estimator):
            found["check_class_weight_classifiers"] = NEAREST
    return found


def is_at_once(estimator):
    """Return whether an estimator is the machine of Crammer and Singer."""
    return getattr(estimator, "multi_class", None) == "crammer_singer"


FIRST = [next(one for one in ESTIMATORS if type(one) is kind) for kind in public_estimators()]  # of every class


# an expected failure that passes is one too; scikit-learn before 1.8 cannot be told
EXPECTED = {"expected_failed_checks": expected_failures}
if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters:
    EXPECTED["xfail_strict"] = True


@parametrize_with_checks(FIRST, **EXPECTED)
def test_scikit_learn_checks(estimator, check):
    run(check, estimator)


@pytest.mark.slow
@parametrize_with_checks([one for one in ESTIMATORS if one not in [*FIRST, *BESIDE]], **EXPECTED)
def test_scikit_learn_checks_of_other_parameters(estimator, check):
    run(check, estimator)


@pytest.mark.nightly
@parametrize_with_checks(BESIDE, **EXPECTED)
def test_scikit_learn_checks_of_combinations(estimator, check):
    run(check, estimator)


def run(check, estimator):
    with warnings.catch_warnings():
        # Of the rows of some checks all columns are near 100, which is slow for classes together.
        is_slow = getattr(estimator, "solver", None) in SLOW or is_at_once(estimator)
        if isinstance(estimator, dm.GossipSVMClassifier) or is_slow:
            warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_equal_repetitions_with_the_default_grid(name):
    import sklearn.utils.estimator_checks as checks

    getattr(checks, name)("ODMClassifierCV", dm.ODMClassifierCV())


def test_every_public_estimator_and_strategy_is_in_the_list():
    listed = {type(estimator) for estimator in ESTIMATORS}
    assert listed == set(public_estimators()) and len(listed) >= 8
    for kind in (dm.ODMClassifier, dm.SVMClassifier, dm.SVMRegressor):
        own = [estimator for estimator in ESTIMATORS if type(estimator) is kind]
        assert {*STRATEGIES, "auto"} <= {one.strategy for one in own if isinstance(one.strategy, str)}
        assert {"linear", "poly", "rbf", "laplacian", "precomputed"} <= {
            one.kernel for one in own if isinstance(one.kernel, str)
        }


@pytest.mark.parametrize(("n_classes", "most"), [(2, 0.6), (3, 0.7)])
def test_no_line_through_the_origin_has_many_rows_of_the_check_on_one_side(n_classes, most):
    """The reason for the expected failures; data as in ``check_class_weight_classifiers``."""
    X, y = make_blobs(centers=n_classes, random_state=0, cluster_std=20)
    _, X, _, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    angles = np.linspace(0, 2 * np.pi, 10_001)
    assert (X @ np.array([np.cos(angles), np.sin(angles)]) > 0).mean(axis=0).max() <= most + 1e-12
