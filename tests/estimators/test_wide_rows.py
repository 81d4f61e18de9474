"""Machines of sparse rows with billions of columns are those of the columns that occur."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import dimargin as dm
from dimargin.estimators.wide_attributes import kept_of
from dimargin.kernels.column_statistics import SparseColumns

WIDTH = 5 * 10**9
RNG = np.random.default_rng(0)
# columns 0 to 39 occur in training, among them few of the first four, the others at prediction only
PLACES = np.sort(RNG.choice(WIDTH, 50, replace=False))
NARROW = np.where(RNG.random((160, 50)) < 0.2, RNG.normal(size=(160, 50)), 0.0)
NARROW[:, [5, 6]] = RNG.normal(size=(160, 2))
TRAIN = NARROW[:120] * (np.arange(50) < 40)
Y = (TRAIN[:, 5] + TRAIN[:, 6] > 0).astype(int)
THREE = Y + (TRAIN[:, 5] > 1)
KERNELS = ["linear", "poly", "rbf", "laplacian"]
CLASSIFIERS = [dm.SVMClassifier, dm.ODMClassifier, dm.CoreSetSVMClassifier]
DETECTORS = [dm.CoreSetSVDD, dm.OneClassCoreSetSVM]


def wide(rows):
    """The same rows, with their columns far apart."""
    rows = sp.csr_array(rows)
    return sp.csr_array((rows.data, PLACES[rows.indices], rows.indptr.astype(np.int64)), shape=(rows.shape[0], WIDTH))


def values(machine, rows):
    return machine.decision_function(rows).reshape(rows.shape[0], -1)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", CLASSIFIERS + DETECTORS)
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_kernels_see_the_columns_that_occur(kind, kernel, y, tmp_path):
    if kind in DETECTORS and y is THREE:
        return
    options = {"kernel": kernel, "gamma": 0.1, "degree": 2, "coef0": 1.0, "random_state": 0}
    narrow, machine = (kind(**options).fit(rows, y) for rows in (sp.csr_array(TRAIN), wide(TRAIN)))
    assert machine.support_vectors_.shape == (len(machine.support_), WIDTH)
    assert_array_equal(machine.support_vectors_.indices, PLACES[narrow.support_vectors_.indices])
    assert_allclose(machine.objective_, narrow.objective_, rtol=1e-9)
    queries = NARROW[120:]  # which have columns that no training row has: they count for distances
    expected = values(narrow, sp.csr_array(queries))
    assert_allclose(values(machine, wide(queries)), expected, rtol=1e-6, atol=1e-9)
    assert_allclose(values(machine, wide(queries[:1])), expected[:1], rtol=1e-6, atol=1e-9)
    dm.save(machine, tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 10**5
    assert_array_equal(values(dm.load(tmp_path / "model"), wide(queries)), values(machine, wide(queries)))
    if kind in CLASSIFIERS:
        assert_allclose(machine.certify(wide(TRAIN), y).objective_, machine.objective_, rtol=1e-9)
        assert machine.set_params(warm_start=True).fit(wide(TRAIN), y).n_iter_ <= narrow.n_iter_
    assert not hasattr(machine, "coef_")  # of 40 GB


@pytest.mark.parametrize("strategy", ["diodm", "dc", "cascade", "dip", "landmark"])
def test_strategies_and_routers(strategy):
    options = {"strategy": strategy, "gamma": 0.1, "random_state": 0}
    options |= {"n_landmarks": 30} if strategy == "landmark" else {"n_levels": 1, "stop_level": 1, "branching": 2}
    narrow, machine = (dm.ODMClassifier(**options).fit(rows, Y) for rows in (sp.csr_array(TRAIN), wide(TRAIN)))
    right = (machine.predict(wide(NARROW)) == narrow.predict(sp.csr_array(NARROW))).mean()
    assert right > 0.8  # parts are drawn by numbers of columns
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.predict(wide(NARROW)), machine.predict(wide(NARROW)))


def test_gamma_is_that_of_all_columns():
    mean = TRAIN.sum() / (120.0 * WIDTH)
    variance = (TRAIN**2).sum() / (120.0 * WIDTH) - mean**2
    for word, gamma in (("scale", 1 / (WIDTH * variance)), ("auto", 1 / WIDTH)):
        named, number = (dm.SVMClassifier(gamma=own).fit(wide(TRAIN), Y) for own in (word, gamma))
        assert_allclose(values(named, wide(NARROW)), values(number, wide(NARROW)), rtol=1e-6, atol=1e-7)
    search = dm.ODMClassifierCV(param_grid={"gamma": ["scale"], "lam": [1e3, 1e4]}, random_state=0).fit(wide(TRAIN), Y)
    alone = dm.ODMClassifier(tol=0.01, random_state=0, **search.best_params_).fit(wide(TRAIN), Y)
    assert_array_equal(values(search, wide(NARROW)), values(alone, wide(NARROW)))


@pytest.mark.parametrize("kernel", ["poly", "linear"])
def test_a_column_that_is_too_large_is_named_as_the_caller_knows_it(kernel):
    rows = TRAIN.copy()
    rows[3, 7] = 1e120
    with pytest.raises(ValueError, match=f"column {PLACES[7]} of X is too large"):
        dm.SVMClassifier(kernel=kernel, gamma=1.0).fit(wide(rows), Y)
    queries = NARROW.copy()
    queries[3, 45] = 1e120
    with pytest.raises(ValueError, match=f"column {PLACES[45]} of X is too large"):
        dm.SVMClassifier(kernel=kernel, gamma=1.0).fit(wide(TRAIN), Y).predict(wide(queries))


# ---- linear machines -------------------------------------------------------------------------------------------------


def spread(weights):
    """Coefficients of narrow rows, as those of wide rows keep them."""
    return {int(place): value for place, value in zip(PLACES, weights.T.tolist(), strict=True) if np.any(value)}


def stored(machine, name="coef_"):
    kept = kept_of(machine, name)
    assert isinstance(kept, SparseColumns) and kept.shape[-1] == WIDTH
    return {
        int(place): value for place, value in zip(kept.columns, kept.values.T.tolist(), strict=True) if np.any(value)
    }


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("solver", ["newton", "svrg", "dsvrg", "csvrg"])
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_linear_machine(solver, y, tmp_path):
    options = {"solver": solver, "lam": 5.0, "tol": 1e-8, "random_state": 0}
    narrow, machine = (dm.LinearODMClassifier(**options).fit(rows, y) for rows in (sp.csr_array(TRAIN), wide(TRAIN)))
    found, expected = stored(machine), spread(narrow.coef_)
    assert found.keys() == expected.keys()
    for place, weights in expected.items():
        assert_allclose(found[place], weights, rtol=1e-2, atol=1e-4)
    expected = values(narrow, sp.csr_array(NARROW))
    assert_allclose(values(machine, wide(NARROW)), expected, rtol=1e-3, atol=1e-3)
    assert_allclose(machine.certify(wide(TRAIN), y).objective_, narrow.objective_, rtol=1e-6)
    dm.save(machine, tmp_path / "model")  # with a history
    assert (tmp_path / "model").stat().st_size < 10**6
    for again in (dm.load(tmp_path / "model"), pickle.loads(pickle.dumps(machine))):
        assert_array_equal(values(again, wide(NARROW)), values(machine, wide(NARROW)))
        assert stored(again) == stored(machine)
    started = machine.set_params(warm_start=True).fit(wide(TRAIN), y)
    assert_allclose(started.objective_, narrow.objective_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_partial_fit_takes_columns_as_they_come(tmp_path):
    parts = np.array_split(np.arange(120), 4)
    sets = [TRAIN[part] * np.isin(np.arange(50) % 4, [number, 1]) for number, part in enumerate(parts)]
    machines = [dm.LinearODMClassifier(solver="svrg", lam=50.0, random_state=0) for _ in range(2)]
    for number, (part, rows) in enumerate(zip(parts, sets, strict=True)):
        for machine, given in zip(machines, (sp.csr_array(rows), wide(rows)), strict=True):
            machine.partial_fit(given, Y[part], classes=[0, 1])
        assert len(kept_of(machines[1], "coef_").columns) == np.any(np.vstack(sets[: number + 1]), axis=0).sum()
        dm.save(machines[1], tmp_path / "model")
        machines[1] = dm.load(tmp_path / "model")  # and go on from there
        assert_allclose(
            values(machines[1], wide(NARROW)), values(machines[0], sp.csr_array(NARROW)), rtol=1e-6, atol=1e-8
        )
    for rows, y in ((sets[1], Y[parts[1]]), (np.vstack(sets), Y)):  # of which some have columns that others lack
        found = [machine.certify(given, y).objective_
                 for machine, given in zip(machines, (sp.csr_array(rows), wide(rows)), strict=True)]  # fmt: skip
        assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert stored(machines[1]).keys() == spread(machines[0].coef_).keys()


def test_coefficients_are_arrays_where_they_fit():
    width, rows = 2000, sp.csr_array(TRAIN)
    rows = sp.csr_array((rows.data, rows.indices * 40, rows.indptr), shape=(120, width))
    machine = dm.LinearODMClassifier(tol=1e-7).fit(rows, Y)
    assert machine.coef_.shape == (1, width) and np.count_nonzero(machine.coef_) <= 40
    with pytest.raises(ValueError, match="read-only"):
        machine.coef_[0, 0] = 1.0
    dense = rows.toarray()
    assert_allclose(machine.decision_function(dense), machine.decision_function(rows), rtol=1e-12)
    assert_allclose(rows @ machine.coef_[0] + machine.intercept_, machine.decision_function(rows), rtol=1e-12)
    assert_allclose(machine.coef_, dm.LinearODMClassifier(tol=1e-7).fit(dense, Y).coef_, atol=1e-4)
    machine.coef_ = np.ones((1, width))  # as in scikit-learn, coefficients may be set
    assert_allclose(machine.decision_function(rows), np.asarray(rows.sum(axis=1)) + machine.intercept_)
    machine.fit(TRAIN, Y)
    assert type(machine.coef_) is np.ndarray and machine.coef_.shape == (1, 50) and machine.coef_.flags.writeable


def test_simulated_sites(tmp_path):
    pytest.importorskip("networkx")
    options = {"n_sites": 3, "alpha": 1e-1, "tol": 1e-2, "random_state": 0, "fit_intercept": True}
    narrow, machine = (
        dm.GossipSVMClassifier(**options).fit(rows, THREE) for rows in (sp.csr_array(TRAIN), wide(TRAIN))
    )
    assert kept_of(machine, "site_coef_").shape == (3, 3, WIDTH) and not hasattr(machine, "site_average_coef_")
    assert_allclose(machine.objective_, narrow.objective_, rtol=1e-2)
    assert (machine.predict(wide(NARROW)) == narrow.predict(sp.csr_array(NARROW))).mean() > 0.9
    before = machine.objective_
    assert_allclose(machine.certify(wide(TRAIN), THREE).objective_, before, rtol=1e-9)
    dm.save(machine, tmp_path / "model")
    assert_array_equal(dm.load(tmp_path / "model").predict(wide(NARROW)), machine.predict(wide(NARROW)))


def test_the_centre_of_a_ball(tmp_path):
    narrow, ball = (dm.CoreSetSVDD(kernel="linear").fit(rows) for rows in (TRAIN, wide(TRAIN)))
    kept = kept_of(ball, "center_")
    assert_allclose(kept.on(PLACES), narrow.center_, atol=1e-4)
    dm.save(ball, tmp_path / "model")
    again = dm.load(tmp_path / "model")
    assert_array_equal(kept_of(again, "center_").values, kept.values)
    assert (tmp_path / "model").stat().st_size < 10**5 and not hasattr(again, "center_")


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_smallest_ball_around_points(kernel, monkeypatch):
    options = {"kernel": kernel, "gamma": 0.1, "degree": 2, "coef0": 1.0}
    narrow = dm.minimum_enclosing_ball(sp.csr_array(TRAIN), **options)
    if kernel == "linear":  # the centre is an array of 40 GB
        with pytest.raises(MemoryError, match=f"an array of shape \\({WIDTH},\\)"):
            monkeypatch.setattr("dimargin.system.memory.memory_of_process", lambda: 10**10)
            dm.minimum_enclosing_ball(wide(TRAIN), **options)
        return
    ball = dm.minimum_enclosing_ball(wide(TRAIN), **options)
    assert ball.radius == pytest.approx(narrow.radius, rel=1e-9) and ball.certificate
    assert_array_equal(ball.core_set_indices, narrow.core_set_indices)
