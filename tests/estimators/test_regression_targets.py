"""Targets of every kind, for both regressors: constants, ties, bands that hold all, ends of float64, and wrong ones."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from dimargin import LinearSVMRegressor, SVMRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
MACHINES = [
    kind(loss=loss, **own)
    for kind, own in ((SVMRegressor, {}), (LinearSVMRegressor, {"solver": "cd"}), (LinearSVMRegressor, {}))
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive")
]
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=str)


def fitted(machine, y, rows=X, **parameters):
    """A converged machine with a sound certificate, trained without a warning."""
    parameters = {**machine.get_params(), "random_state": 0, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = type(machine)(**parameters).fit(rows, y)
    assert found.status_ == "converged" and 0 <= found.duality_gap_ <= found.tol
    assert found.dual_objective_ <= found.objective_
    return found


# ---- few different targets, or none ----------------------------------------------------------------------------------


@every_machine
@pytest.mark.parametrize("value", [0.0, -0.0, 3.3, -1e-60, 1e90])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_constant_targets(machine, value, epsilon):
    found = fitted(machine, np.full(40, value), epsilon=epsilon)
    assert found.objective_ == found.dual_objective_ == found.duality_gap_ == 0
    assert_array_equal(found.predict(X), np.full(40, value))


@every_machine
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_band_that_holds_all_targets(machine, fit_intercept):
    found = fitted(machine, Y, epsilon=100.0, fit_intercept=fit_intercept)
    assert found.objective_ == found.dual_objective_ == found.duality_gap_ == 0
    assert np.ptp(found.predict(X)) == 0 and abs(found.predict(X)[0] - Y).max() <= 100.0
    assert found.certify(X, Y).duality_gap_ == 0
    if not fit_intercept:
        assert not found.predict(X).any()


@every_machine
@pytest.mark.parametrize("n", [40, 600])
def test_a_band_that_holds_all_targets_but_not_around_most(machine, n):
    """From the median, Newton steps end at the edge of the intercepts without loss, at an objective of 1e-64."""
    rows, y = np.random.default_rng(1).normal(size=(n, 3)), np.where(np.arange(n) % 4, 0.0, 1.0)
    found = fitted(machine, y, rows, epsilon=0.6)
    assert found.objective_ == found.duality_gap_ == 0 and found.intercept_ == 0.5


@every_machine
@pytest.mark.parametrize(("y", "is_exact"), [([0.0, 1.0], True), ([1e6, 1e6 + 2], True), ([0.1, 0.3], False)])
def test_a_band_as_wide_as_the_targets(machine, y, is_exact):
    """Rounding may leave a target outside of the band, by less than no objective could be; then the gap says so."""
    y, epsilon = np.resize(y, 40), (y[1] - y[0]) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = type(machine)(**{**machine.get_params(), "epsilon": epsilon}).fit(X, y)
    (b,), band = found.intercept_, Fraction(epsilon)
    excess = [max(abs(Fraction(b) - Fraction(t)) - band, 0) for t in y.tolist()]
    loss = float(sum(excess) if machine.loss == "epsilon_insensitive" else sum(e**2 for e in excess))
    assert abs(found.predict(X) - b).max() < 1e-15
    assert found.dual_objective_ <= loss <= found.objective_ * (1 + found.duality_gap_) <= 1e-13
    exact = found.objective_ == found.dual_objective_ == found.duality_gap_ == 0 and found.status_ == "converged"
    assert exact == is_exact and (is_exact or found.duality_gap_ >= 1)


@every_machine
@pytest.mark.parametrize("value", [2.0, -7e20])
def test_one_row(machine, value):
    found = fitted(machine, [value], X[:1])
    assert_allclose(found.predict(X), value)
    without = fitted(machine, [value], X[:1], fit_intercept=False)
    assert 0 < without.objective_ <= without.C * value**2


@every_machine
def test_equal_rows_with_different_targets(machine):
    """The best constant is anywhere between them, or in the middle: they cost 2 C (1/2 - epsilon), or its square."""
    found = fitted(machine, [0.0, 1.0], np.ones((2, 3)))
    power = 1 if machine.loss == "epsilon_insensitive" else 2
    cost = 0.8 if power == 1 else 2 * 0.4**2
    assert found.objective_ == pytest.approx(cost, rel=1e-3)
    assert -1e-9 <= found.predict(np.ones((1, 3)))[0] <= 1 + 1e-9
    many = fitted(machine, np.tile([0.0, 1.0, 1.0], 300), np.ones((900, 3)), epsilon=0.0)
    assert many.objective_ == pytest.approx(300.0 if power == 1 else 200.0, rel=1e-3)
    assert many.predict(np.ones((1, 3)))[0] == pytest.approx(1.0 if power == 1 else 2 / 3, abs=0.02)


@every_machine
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_targets_of_two_values(machine, fit_intercept):
    found = fitted(machine, np.where(X[:, 0] > 0, 1.0, -1.0), epsilon=0.0, fit_intercept=fit_intercept)
    assert found.score(X, np.where(X[:, 0] > 0, 1.0, -1.0)) > 0.5


@every_machine
def test_zero_weight_leaves_one_row(machine):
    weights = np.zeros(40)
    weights[7] = 2.0
    found = type(machine)(**machine.get_params()).fit(X, Y, weights)
    assert_allclose(found.predict(X), Y[7])


# ---- scales ----------------------------------------------------------------------------------------------------------


@every_machine
@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e20, 1e40])
def test_small_and_large_targets(machine, scale):
    cost = scale if machine.loss == "epsilon_insensitive" else 1.0
    one = fitted(machine, Y, tol=1e-6)
    found = fitted(machine, scale * Y, C=cost, epsilon=0.1 * scale, tol=1e-6)
    assert found.objective_ / scale**2 == pytest.approx(one.objective_, rel=2e-6)
    assert_allclose(found.predict(X) / scale, one.predict(X), atol=0.01)


@every_machine
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-150, 1e-60, 1e60, 1e90, 9e99])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1e100])
def test_targets_at_the_ends_have_a_finite_certificate(machine, scale, epsilon):
    y = scale * (Y / np.abs(Y).max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = type(machine)(**{**machine.get_params(), "epsilon": epsilon}).fit(X, y)
    assert np.isfinite([found.objective_, found.dual_objective_, found.duality_gap_]).all()
    assert found.dual_objective_ <= found.objective_ and np.isfinite(found.predict(X)).all()
    # No constant is better.
    excess = np.maximum(np.abs(np.median(y) - y) - epsilon, 0)
    constant = (excess if machine.loss == "epsilon_insensitive" else excess**2).sum()
    assert found.objective_ <= constant * (1 + 1e-3) + 1e-300


@every_machine
def test_one_target_far_from_the_others(machine):
    far = np.r_[1e80, Y[1:]]
    found = fitted(machine, far)
    least_constant = 1e80 if machine.loss == "epsilon_insensitive" else 1e160
    assert 0 < found.objective_ <= least_constant * (1 + found.tol)


@every_machine
def test_targets_far_from_zero(machine):
    """Their differences are known to 1e-6 only, and the certificate says so."""
    y = 1e10 + Y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = type(machine)(**{**machine.get_params(), "tol": 1e-9}).fit(X, y)
    excess = np.maximum(np.abs((found.predict(X) - 1e10) - (y - 1e10)) - 0.1, 0)
    losses = (excess if machine.loss == "epsilon_insensitive" else excess**2).sum()
    assert losses <= found.objective_ * (1 + 3 * found.duality_gap_)
    assert 1e-9 < found.duality_gap_ < 1e-3 and found.status_ != "converged"


# ---- types -----------------------------------------------------------------------------------------------------------


@every_machine
@pytest.mark.parametrize(
    "convert",
    [
        lambda y: y.tolist(), lambda y: y.astype(np.float32), lambda y: y.astype(np.float16),
        lambda y: y.astype(int), lambda y: y.astype(np.uint8), lambda y: y.astype(object), lambda y: y.astype(str),
        lambda y: y.astype(np.longdouble), lambda y: y[::-1][::-1], pd.Series,
        lambda y: pd.Series(y, dtype="Int64"), lambda y: pd.Series(y, dtype="float32"),
    ],
)  # fmt: skip
def test_types_of_numbers(machine, convert):
    y = np.arange(40.0) % 7
    assert_array_equal(fitted(machine, convert(y)).predict(X), fitted(machine, y).predict(X))


@every_machine
def test_truth_values_and_columns(machine):
    y = X[:, 0] > 0
    assert_array_equal(fitted(machine, y).predict(X), fitted(machine, y.astype(float)).predict(X))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = type(machine)(**machine.get_params()).fit(X, Y[:, None])
    assert column.predict(X).shape == (40,)


def with_value(value, row=4, dtype=float):
    y = Y.astype(dtype)
    y[row] = value
    return y


@pytest.mark.parametrize("kind", [SVMRegressor, LinearSVMRegressor])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (with_value(np.nan), r"targets must be finite and at most 1e\+100 .*, but row 4 of y is nan; drop such rows"),
        (with_value(np.inf, 39), "row 39 of y is inf"),
        (with_value(-np.inf), "row 4 of y is -inf"),
        (with_value(np.nan, dtype=np.float32), "row 4 of y is nan"),
        (with_value(np.nan, dtype=object), "row 4 of y is nan"),
        (with_value(10**400, dtype=object), "y must be numbers, but row 4 is 10{8};"),
        (with_value(2e100), r"row 4 of y is 2e\+100; drop such rows, or divide y by a number"),
        (with_value(-1e300), r"row 4 of y is -1e\+300"),
        (with_value("ham", dtype=object), "y must be numbers, but row 4 is 'ham'; classifiers take labels"),
        (with_value(None, dtype=object), "y must be numbers, but row 4 is None"),
        (np.array(["1.5", "spam"] * 20), "y must be numbers, but row 1 is 'spam'"),
        (np.array([b"1.5", b"eggs"] * 20), "y must be numbers, but row 1 is b'eggs'"),
        (pd.Series([1, None] * 20, dtype="Int64"), "row 1 of y is nan|y must be numbers, but row 1 is <NA>"),
        (Y + 1j, "Complex data not supported"),
        (np.arange(40).astype("datetime64[D]"), r"y must be numbers, got an array of datetime64\[D\]"),
        (np.column_stack([Y, Y]), r"y should be a 1d array, got an array of shape \(40, 2\)"),
        (3.0, "y should be a 1d array"),
        (Y[:39], r"inconsistent numbers of samples: \[40, 39\]"),
        (None, "requires y to be passed, but the target y is None"),
    ],
)
def test_wrong_targets_are_named(kind, y, message):
    machine = kind()
    before = dict(vars(machine))
    with pytest.raises(ValueError, match=message):
        machine.fit(X, y)
    assert vars(machine) == before
