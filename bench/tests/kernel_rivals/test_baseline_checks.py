"""scikit-learn's checks of all rivals, and the errors that they have in common."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import dimargin
import dimargin_bench.kernel_rivals
from dimargin_bench.kernel_rivals import (
    LLSVM,
    LTPU,
    BaggedSVM,
    DistEval,
    FastFood,
    LaSVM,
    LocalADMM,
    Pegasos,
    PseudoDistributed,
    SingleCoordinateODM,
    SpSVM,
    SubsampledSVM,
    SVMPerf,
    ThresholdedRegression,
)

# few centres and features, of the few rows that the checks have
RIVALS = [
    BaggedSVM(),
    DistEval(n_sites=3),
    FastFood(n_components=10),
    LaSVM(),
    LLSVM(n_centers=50),
    LTPU(n_centers=50),
    LocalADMM(lam=0.1, rel_tol=0.1, abs_tol=0.01),
    Pegasos(alpha=1e-2, max_iter=300),
    PseudoDistributed(n_sites=3),
    SingleCoordinateODM(),
    SpSVM(n_basis=20),
    SubsampledSVM(),
    SVMPerf(tol=1e-2),
    ThresholdedRegression(),
]
CLASSIFIERS = [rival for rival in RIVALS if is_classifier(rival)]


def kind(rival):
    return type(rival).__name__


@parametrize_with_checks(RIVALS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_rival_is_in_the_list():
    classes = [
        name
        for name in dimargin_bench.kernel_rivals.__all__
        if isinstance(getattr(dimargin_bench.kernel_rivals, name), type)
    ]
    assert sorted(map(kind, RIVALS)) == classes
    assert all(isinstance(rival, BaseEstimator) for rival in RIVALS) and len(CLASSIFIERS) == 13


def test_rivals_are_not_at_the_top_of_the_package():
    assert not set(dimargin_bench.kernel_rivals.__all__) & set(dimargin.__all__)


@pytest.mark.parametrize("rival", RIVALS, ids=kind)
def test_errors_name_parameter_row_and_column(rival):
    X, y = make_moons(40, random_state=0)
    for gamma in (-1.0, "wide") if "gamma" in rival.get_params() else ():
        with pytest.raises(ValueError, match="gamma must be"):
            rival.__class__(gamma=gamma).fit(X, y)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN \\(row 3, column 1\\)"):
        rival.fit(X, y)


@pytest.mark.parametrize("rival", [LLSVM(n_centers=10**6), SpSVM(n_basis=10**6), SingleCoordinateODM()], ids=kind)
def test_what_does_not_fit_into_memory_is_refused_before_any_work(rival):
    with pytest.raises(MemoryError, match=f"{kind(rival)}.* needs about"):
        rival.fit(np.zeros((10**6, 1)), np.arange(10**6) % 2)


@pytest.mark.parametrize("rival", RIVALS, ids=kind)
def test_the_same_seed_gives_the_same_numbers_on_any_number_of_threads(rival):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(3000, 30))])
    X, y, queries = X[:1000], y[:1000], X
    found = []
    for threads in (1, 4):
        with threadpool_limits(threads):
            own = clone(rival)
            own.set_params(**({"random_state": 3} if "random_state" in own.get_params() else {})).fit(X, y)
            found.append(own.decision_function(queries) if is_classifier(own) else own.transform(queries))
    assert_array_equal(*found)


@pytest.mark.parametrize("rival", CLASSIFIERS, ids=kind)
def test_one_class_is_an_error(rival):
    with pytest.raises(ValueError, match=f"{kind(rival)} needs at least two classes"):
        rival.fit(np.eye(3), ["a", "a", "a"])


@pytest.mark.parametrize(
    ("rival", "message"),
    [
        (BaggedSVM(n_estimators=0), "n_estimators must be a whole number in"),
        (FastFood(n_components=0), "n_components must be a whole number in"),
        (LaSVM(C=-1.0), "C must be a finite number in"),
        (LaSVM(n_epochs=0), "n_epochs must be a whole number in"),
        (LLSVM(loss="logistic"), "loss must be 'squared_hinge' or 'hinge', got 'logistic'"),
        (LTPU(n_centers=0), "n_centers must be a whole number in"),
        (Pegasos(alpha=0.0), "alpha must be a finite number in"),
        (Pegasos(batch_size=0), "batch_size must be a whole number in"),
        (Pegasos(max_iter=0), "max_iter must be a whole number in"),
        (PseudoDistributed(n_sites=0), "n_sites must be a whole number in"),
        (PseudoDistributed(shards="even"), "shards must be 'random', 'unequal'"),
        (PseudoDistributed(combine="sum"), "combine must be 'average', 'vote' or 'none', got 'sum'"),
        (Pegasos(epsilon=0.0), "epsilon must be a finite number in"),
        (Pegasos(reading="length"), "reading must be 'norm' or 'weights', got 'length'"),
        (LocalADMM(rho=0.0), "rho must be a finite number in"),
        (LocalADMM(n_parts=0), "n_parts must be a whole number in"),
        (SVMPerf(tol=0.0), "tol must be a finite number in"),
        (SVMPerf(max_iter=0), "max_iter must be a whole number in"),
        (SingleCoordinateODM(theta=1.0), "theta must be a finite number in"),
        (SpSVM(n_basis=0), "n_basis must be a whole number in"),
        (SpSVM(offset=-1.0), "offset must be a finite number in"),
        (SubsampledSVM(fraction=1.5), "fraction must be a finite number in"),
    ],
    ids=lambda value: kind(value) if isinstance(value, BaseEstimator) else "",
)
def test_parameters_out_of_range(rival, message):
    X, y = make_moons(40, random_state=0)
    with pytest.raises(ValueError, match=message):
        rival.fit(X, y)


@pytest.mark.parametrize(
    ("rival", "message"),
    [
        (LaSVM(max_iter=1), "max_iter=1 steps of FINISHING"),
        (SingleCoordinateODM(max_iter=1, tol=1e-9), "max_iter=1 sweeps; the relative duality gap is"),
        (SpSVM(n_basis=50, C=100.0, max_iter=1, tol=1e-12), "max_iter=1 Newton steps"),
        (SVMPerf(max_iter=3), "max_iter=3 planes; the next is larger by"),
    ],
    ids=lambda value: kind(value) if isinstance(value, BaseEstimator) else "",
)
def test_too_few_steps_are_told(rival, message):
    X, y = make_moons(1000, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match=message):
        rival.fit(X, y)


@pytest.mark.parametrize("rival", [LLSVM(40, C=10.0), LTPU(40, C=10.0), SubsampledSVM(0.5)], ids=kind)
def test_more_classes_than_two(rival):
    X, y = load_iris(return_X_y=True)
    rival.set_params(random_state=0).fit(X, y)
    assert rival.decision_function(X).shape == (150, 3) and rival.score(X, y) > 0.9
