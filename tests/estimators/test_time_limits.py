"""A time limit that is not reached changes nothing of a fit, however uneven the time of its steps."""

import time
import warnings
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import dimargin as dm

MANY = 20  # times as long as a fit takes: its limit
ONE_VS_REST = {"multi_class": "one_vs_rest", "random_state": 0, "gamma": 1.0}
TREE = ONE_VS_REST | {"branching": 2, "n_levels": 2}
KERNEL_MACHINES = {
    "odm": dm.ODMClassifier,
    "hinge": lambda **options: dm.SVMClassifier(C=2.0, **options),
    "squared hinge": lambda **options: dm.SVMClassifier(C=2.0, loss="squared_hinge", **options),
    "no intercept": lambda **options: dm.SVMClassifier(C=2.0, fit_intercept=False, **options),
}
WAYS = {
    "one vs one": {"random_state": 0, "gamma": 1.0},
    "exact": ONE_VS_REST | {"strategy": "exact"},
    "float64": ONE_VS_REST | {"strategy": "exact", "tol": 1e-6},
    "across": ONE_VS_REST | {"strategy": dm.Exact(across_shards=True, working_set=300)},
    "across in float64": ONE_VS_REST | {"strategy": dm.Exact(across_shards=True, working_set=300), "tol": 1e-5},
    "diodm": TREE | {"strategy": dm.DiODM(early_stop=False)},
    "dc": TREE | {"strategy": "dc"},
    "committee": TREE | {"strategy": dm.DivideAndConquer(prediction="bcm"), "stop_level": 2},
    "cascade": TREE | {"strategy": "cascade"},
    "rounds": TREE | {"strategy": dm.Cascade(rounds=3)},
    "dip": TREE | {"strategy": dm.DiP()},
    "landmark": ONE_VS_REST | {"strategy": "landmark", "n_landmarks": 50},
    "polished": ONE_VS_REST | {"strategy": dm.Landmark(polish=True), "n_landmarks": 50},
}
MACHINES = {
    f"{loss}, {way}": make(**options)
    for loss, make in KERNEL_MACHINES.items()
    for way, options in WAYS.items()
    if not (way in ("landmark", "polished") and loss in ("hinge", "no intercept"))
} | {
    **{
        f"{loss}, {way}": dm.SVMRegressor(loss=loss, **{k: v for k, v in WAYS[way].items() if k != "multi_class"})
        for loss in ("epsilon_insensitive", "squared_epsilon_insensitive")
        for way in ("exact", "float64", "across", "dc", "cascade", "landmark")
        if way != "landmark" or loss == "squared_epsilon_insensitive"
    },
    **{
        f"linear regression, {solver}": dm.LinearSVMRegressor(
            loss="squared_epsilon_insensitive", solver=solver, tol=1e-2, random_state=0
        )
        for solver in ("cd", "newton", "dsvrg", "cocoa")
    },
    "core-set": dm.CoreSetSVMClassifier(random_state=0),
    "core-set by its ball": dm.CoreSetSVMClassifier(epsilon=1e-3, random_state=0),
    "core-set of sites": dm.CoreSetSVMClassifier(n_sites=3, tol=0.1, random_state=0),
    "hard margin": dm.CoreSetSVMClassifier(C=np.inf, gamma=50.0, random_state=0),
    "newton": dm.LinearODMClassifier(random_state=0),
    **{name: dm.LinearODMClassifier(solver=name, tol=1e-2, random_state=0) for name in ("svrg", "csvrg", "dsvrg")},
    "svdd": dm.CoreSetSVDD(contamination=0.05, random_state=0),
    "svdd, linear": dm.CoreSetSVDD(kernel="linear", C=1.0, random_state=0),
    "one class": dm.OneClassCoreSetSVM(contamination=0.05, random_state=0),
    "gossip": dm.GossipSVMClassifier(n_sites=3, max_iter=40, random_state=0),
    "search": dm.ODMClassifierCV(min_rows=200, param_grid={"lam": [1e2, 1e3], "gamma": [0.5, 1.0]}, random_state=0),
}  # fmt: skip


def table(n_classes, n=660):
    """Rows of two classes or three."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n), [0.0, 0.8][: n_classes - 1])


def blocks_of_classes(n_classes, n):
    """Rows of many classes, in the plane."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 2)) + np.stack([y % 7, y // 7], axis=1), y


def few_far_away():
    """Rows of which few are of the other class: a round of a core-set moves nothing, and computes no kernel value."""
    X, y = np.random.default_rng(1).normal(size=(10_000, 2)), np.zeros(10_000, dtype=int)
    y[:10], X[:10] = 1, X[:10] + 4.0
    return X, y


@pytest.fixture
def uneven_clock(monkeypatch):
    """A clock by which other programs take the processor between any two looks, whatever is done there."""
    rng, now = np.random.default_rng(0), [0.0]

    def look():
        now[0] += float(rng.exponential())
        return now[0]

    monkeypatch.setattr(time, "perf_counter", look)


def known(value):
    """What a fit has found, without its seconds and the limit that it had."""
    if isinstance(value, dict):
        return {key: known(own) for key, own in value.items() if "seconds" not in key and key != "max_time"}
    if isinstance(value, (list, tuple)):
        return [known(own) for own in value]
    return known(vars(value)) if hasattr(value, "__dict__") and "dimargin" in type(value).__module__ else value


def found_by(machine, X, y, limit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return known(vars(deepcopy(clone(machine).set_params(max_time=limit).fit(X, y))))


def check(machine, X, y):
    began = time.perf_counter()
    expected = found_by(machine, X, y, None)
    limit = MANY * (time.perf_counter() - began)
    np.testing.assert_equal(found_by(machine, X, y, limit), expected)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_a_limit_that_is_not_reached_changes_nothing(name, n_classes, uneven_clock):
    if name == "gossip" and n_classes > 2:
        pytest.skip("it separates two classes")
    check(MACHINES[name], *table(n_classes))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("n_classes", "n"), [(40, 400), (3, 1800)])  # pairs of twenty rows, and such as are no blocks
@pytest.mark.parametrize("loss", KERNEL_MACHINES)
def test_nor_does_it_of_pairs_of_classes(loss, n_classes, n, uneven_clock):
    check(KERNEL_MACHINES[loss](**WAYS["one vs one"]), *blocks_of_classes(n_classes, n))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_a_limit_that_is_over_at_once_leaves_a_model(name, n_classes):
    if name == "gossip" and n_classes > 2:
        pytest.skip("it separates two classes")
    machine, (X, y) = clone(MACHINES[name]).set_params(max_time=1e-9), table(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name == "hard margin":
            with pytest.raises(ValueError, match="ended \\(max_time\\) before one was found"):
                machine.fit(X, y)
            return
        machine.fit(X, y)
    model = getattr(machine, "best_estimator_", machine)
    assert model.status_ in ("max_time", "converged") and model.duality_gap_ > 0
    assert len(machine.predict(X)) == len(X)


@pytest.mark.parametrize(
    "machine",
    [
        dm.CoreSetSVMClassifier(random_state=0),
        dm.CoreSetSVDD(contamination=0.01, random_state=0),
        dm.OneClassCoreSetSVM(),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_a_round_that_computes_nothing_does_not_end_a_fit(machine, uneven_clock):
    check(clone(machine).set_params(random_state=0), *few_far_away())


@pytest.mark.parametrize("method", ["growing", "fixed"])
def test_nor_does_it_for_balls(method, uneven_clock):
    X, _ = table(2)
    balls = [
        dm.minimum_enclosing_ball(X, kernel="rbf", epsilon=0.1, method=method, random_state=0, max_time=limit)
        for limit in (None, 10**6)
    ]
    np.testing.assert_equal(known(vars(balls[1])), known(vars(balls[0])))
