"""Parameters, weights and features at the ends of float64: a finite certificate, or an error that names them."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import RegressorMixin, is_outlier_detector, is_regressor
from sklearn.exceptions import ConvergenceWarning

import dimargin as dm
from dimargin.estimators.input_checks import MAX_PARAMETER, MIN_PARAMETER, check_objectives

EXTREMES = (5e-324, 1e-320, 1e-300, 1e-100, 1e100, 1e300)
SCALES = (1e-320, 1e-300, 1e-160, 1e-100, 1e-20, 1e20, 1e50, 1e100, 1e155, 1e200, 1e300)
RNG = np.random.default_rng(0)
y = np.arange(30) % 2
X = RNG.normal(size=(30, 3)) + y[:, None]
SMALL = {
    dm.GossipSVMClassifier: {"n_sites": 2, "max_iter": 40},
    dm.LinearSVMClassifierCV: {"cv": 2},
    dm.LinearODMClassifierCV: {"cv": 2},
}
CERTIFIED = [
    kind
    for kind in map(dm.__dict__.get, dm.__all__)
    if inspect.isclass(kind) and "duality_gap_ :" in (kind.__doc__ or "")
]


def data_sets():
    yield from (X * scale for scale in SCALES)
    yield np.ones_like(X)
    yield np.zeros_like(X)
    yield sp.csr_array(X.shape)
    yield sp.csr_array(X * (X > 0.5) * 1e300)
    yield (X * 1e38).astype(np.float32)
    yield X[:, :1]
    for column, value in ((slice(None), 7.0), (slice(None), 1e300), (3, 1e150), (3, 1e300)):
        changed = X.copy()
        changed[column, 1] = value
        yield changed


def weights():
    for value in EXTREMES:
        yield np.full(30, value)
        yield np.where(np.arange(30) == 4, value, 1.0)
        yield np.where(y == 1, value, 1.0)


def fits(kind):
    """Data, labels, keywords of the constructor and of `fit`."""
    own = SMALL.get(kind, {})
    for rows in data_sets():
        yield rows, own, {}
    yield X[:2], own, {}
    known = inspect.signature(kind).parameters
    half_width = ["epsilon"] if issubclass(kind, RegressorMixin) else []
    for name in ("C", "lam", "alpha", "gamma", "coef0", "upsilon", "tol", "step_size", *half_width):
        for value in EXTREMES if name in known else ():
            if name != "upsilon" or value < 1:
                kernel = {"kernel": "poly"} if name == "coef0" else {}
                yield X, own | {name: value} | kernel, {}
                yield np.ones_like(X), own | {name: value} | kernel, {}
    for name in {"Cs", "lams"} & known.keys():
        for value in EXTREMES:
            yield X, own | {name: [value, 1.0]}, {}
    if "sample_weight" in inspect.signature(kind.fit).parameters:
        for given in weights():
            yield X, own, {"sample_weight": given}


def certificate(machine):
    return np.hstack([machine.objective_, machine.dual_objective_, machine.duality_gap_])


def attempt(kind, rows, parameters, given):
    machine = kind(**parameters, random_state=0)
    labels = () if is_outlier_detector(machine) else (y[: rows.shape[0]],)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", message="The radius of the ball is zero")
            machine.fit(rows, *labels, **given)
    except ValueError as error:
        assert not isinstance(error, np.linalg.LinAlgError), (parameters, given, error)
        words = (*parameters, "sample_weight", "column")
        assert any(word in str(error) for word in words) and "not finite" not in str(error), error
        return False
    what = (parameters, given, rows if given == {} else None)
    assert np.isfinite(certificate(machine)).all() and machine.duality_gap_ >= 0, what
    values = machine.predict if is_regressor(machine) else machine.decision_function
    assert np.isfinite(values(rows)).all(), what
    assert machine.status_ != "converged" or machine.duality_gap_ <= machine.tol, what
    return True


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("kind", CERTIFIED)
def test_no_certificate_is_other_than_finite(kind):
    done = [attempt(kind, *one) for one in fits(kind)]
    assert 15 < sum(done) < len(done)


def test_all_machines_are_tried():
    assert {dm.ODMClassifier, dm.SVMClassifier, dm.LinearODMClassifier, dm.CoreSetSVMClassifier} < set(CERTIFIED)
    assert {dm.GossipSVMClassifier, dm.CoreSetSVDD, dm.OneClassCoreSetSVM} < set(CERTIFIED)
    assert {dm.SVMRegressor, dm.LinearSVMRegressor} < set(CERTIFIED)


@pytest.mark.parametrize("parameters", [{"gamma": 1e-300}, {"kernel": "linear"}, {}])
def test_a_ball_around_rows_that_are_the_same(parameters):
    rows = X if "gamma" in parameters else np.ones((10, 2))
    with pytest.warns(UserWarning, match="The radius of the ball is zero: all rows are equal to kernel="):
        found = dm.CoreSetSVDD(**parameters).fit(rows)
    assert found.radius_ == 0 and found.status_ == "converged" and 0 <= found.duality_gap_ <= 1e-3


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        (dm.OneClassCoreSetSVM(C=1e-300), r"C must be in \[1e-50, 1e\+50\], got 1e-300"),
        (dm.CoreSetSVDD(C=1e300), r"C must be in \[1e-50, 1e\+50\], got 1e\+300"),
        (dm.LinearODMClassifier(lam=1e300), r"lam must be in \[1e-50, 1e\+50\], got 1e\+300"),
        (dm.GossipSVMClassifier(alpha=1e-300), r"alpha must be in \[1e-50, 1e\+50\], got 1e-300"),
    ],
)
def test_parameters_without_room_for_products_are_named(machine, text):
    with pytest.raises(ValueError, match=text):
        machine.fit(X, y)


def test_a_gap_that_rounding_leaves_is_of_status_precision():
    with pytest.warns(ConvergenceWarning, match=r"the remaining gap above tol=0\.001 is within rounding error"):
        found = dm.CoreSetSVDD(kernel="poly", gamma=1e30).fit(X)
    assert found.status_ == "precision" and found.duality_gap_ > 0.001


def test_weights_without_room_for_products_are_named():
    given = np.where(np.arange(30) == 4, 1e-320, 1.0)
    for machine in (dm.SVMClassifier(loss="squared_hinge"), dm.CoreSetSVDD()):
        text = r"sample_weight must be 0 or in \[1e-50, 1e\+50\], got 9.99989e-321 in row 4"
        with pytest.raises(ValueError, match=text):
            machine.fit(X, y, sample_weight=given)
    with pytest.raises(ValueError, match=r"sample_weight times class_weight must be 0 or .* got 1e-300 in row 0"):
        dm.SVMClassifier(class_weight={0: 1e-300}).fit(X, y)
    given[4] = 0.0  # left out
    assert dm.SVMClassifier().fit(X, y, sample_weight=given).status_ == "converged"


def test_features_without_room_for_squares_are_named():
    for rows in (X * 1e300, sp.csr_array(X * 1e300)):
        text = r"column 0 of X is too large: 1.25.*e\+299 in row 0; expected magnitudes up to 1e\+50"
        for machine in (dm.GossipSVMClassifier(), dm.LinearODMClassifier()):
            with pytest.raises(ValueError, match=text):
                machine.fit(rows, y)


def test_what_is_not_finite_is_never_reported():
    for bad in (np.nan, np.inf):
        for values in ((bad, 0.0, 0.0), (1.0, bad, 0.0), (1.0, np.array([0.0, bad]), 0.0), (1.0, 0.0, bad)):
            with pytest.raises(ValueError, match=r"are not finite: .* Scale the columns first"):
                check_objectives(*values)
    check_objectives(MIN_PARAMETER, 0.0, MAX_PARAMETER)


def test_kernel_values_without_room_for_squares_are_refused():
    with pytest.raises(ValueError, match=r"column \d of X is too large for the linear kernel"):
        dm.CoreSetSVDD(kernel="linear").fit(X * 1e100)


@pytest.mark.parametrize("parameters", [{"strategy": "landmark", "lam": 1e30}, {"strategy": "dc"}])
def test_strategies_at_the_ends(parameters):
    """A Hessian that rounding has left indefinite; distances that have no inverse."""
    assert attempt(dm.ODMClassifier, X * (1e-160 if parameters["strategy"] == "dc" else 1.0), parameters, {})


def test_rows_so_large_that_no_step_helps_end_at_once():
    """A thousand passes were made, each like the first."""
    rows = np.random.default_rng(0).normal(size=(30, 3))
    gap = "1.00e" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else ""  # OpenBLAS of older ones rounds otherwise
    with pytest.warns(ConvergenceWarning, match=f"stays at {gap}"):
        found = dm.CoreSetSVMClassifier(kernel="linear").fit(1e20 * rows, rows[:, 0] > 0)
    assert found.status_ == "precision" and found.n_iter_ <= 3
