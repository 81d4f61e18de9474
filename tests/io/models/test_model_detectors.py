"""Model files of outlier detectors: what is loaded is what was saved."""

import subprocess
import sys
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import dimargin as dm
from dimargin.kernels.column_statistics import SparseColumns

DETECTORS = [dm.CoreSetSVDD, dm.OneClassCoreSetSVM]
RNG = np.random.default_rng(0)
X, QUERIES = RNG.normal([2.0, 0.0, -1.0], size=(80, 3)), RNG.uniform(-9, 9, size=(40, 3))
FORMS = {
    "dense": np.asarray,
    "float32": lambda X: np.asarray(X, dtype=np.float32),
    "sparse": lambda X: sp.csr_array(np.where(X > 0, X, 0.0)),
    "frame": lambda X: pd.DataFrame(X, columns=["length", "width", "height"]),
}


def fitted(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a ball that is worth nothing, or of a limit
        return model.fit(X)


def assert_same(again, model, X):
    assert type(again) is type(model) and repr(again) == repr(model)
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_array_equal(again.predict(X), model.predict(X))


def assert_same_attributes(again, detector):
    for name, value in vars(detector).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(again, name), value)
            assert getattr(again, name).dtype == value.dtype
        elif isinstance(value, SparseColumns):
            for part, stored in vars(value).items():
                assert_array_equal(getattr(getattr(again, name), part), stored)
        elif name.endswith("_") and not sp.issparse(value):
            assert getattr(again, name) == value
    assert vars(again).keys() == vars(detector).keys()


@settings(max_examples=40, deadline=None)
@given(
    make=st.sampled_from(DETECTORS),
    kernel=st.sampled_from(["linear", "poly", "rbf", "laplacian"]),
    form=st.sampled_from(sorted(FORMS)),
    scaler=st.sampled_from([None, MinMaxScaler((-1, 1)), StandardScaler(with_mean=False), MaxAbsScaler()]),
    C=st.floats(1e-2, 1e3),
    contamination=st.sampled_from(["auto", 0.1]),
    gamma=st.one_of(st.just("scale"), st.floats(1e-3, 1e3)),
    seed=st.integers(0, 2**31 - 1),
)
def test_a_round_trip_changes_nothing(tmp_path_factory, make, kernel, form, scaler, C, contamination, gamma, seed):
    if form == "sparse" and isinstance(scaler, MinMaxScaler):
        scaler = None
    detector = make(C, kernel=kernel, gamma=gamma, degree=2, coef0=1.0, contamination=contamination, random_state=seed)
    model = fitted(detector if scaler is None else make_pipeline(scaler, detector), FORMS[form](X))
    path = tmp_path_factory.mktemp("models") / "model"
    dm.save(model, path, notes={"from": "a test"})
    again = dm.load(path)
    assert_same(again, model, FORMS[form](X))
    assert_same(again, model, FORMS[form](QUERIES))
    machine = again if scaler is None else again[-1]
    assert_same_attributes(machine, detector)
    assert sp.issparse(machine.support_vectors_) == (form == "sparse")
    before = path.read_bytes()
    dm.save(again, path, notes={"from": "a test"})
    assert path.read_bytes() == before


SPECIAL = {
    "no row outside": dm.CoreSetSVDD(float("inf"), kernel="linear"),
    "a ball that is worth nothing": dm.CoreSetSVDD(1e-6),
    "an epsilon": dm.OneClassCoreSetSVM(epsilon=0.01),
    "sites": dm.CoreSetSVDD(n_sites=3, topology="ring", shards=np.arange(80) % 3, random_state=0),
    "sites of a plane": dm.OneClassCoreSetSVM(n_sites=2, random_state=0),
}


@pytest.mark.parametrize("special", SPECIAL)
def test_whatever_was_fitted_comes_back(special, tmp_path):
    detector = fitted(SPECIAL[special], X)
    dm.save(detector, tmp_path / "m")
    again = dm.load(tmp_path / "m")
    assert_same(again, detector, QUERIES)
    assert_same_attributes(again, detector)


def test_values_computed_beforehand(tmp_path):
    detector = dm.OneClassCoreSetSVM(kernel="precomputed").fit(rbf_kernel(X, gamma=0.3))
    dm.save(detector, tmp_path / "m")
    assert_same(dm.load(tmp_path / "m"), detector, rbf_kernel(QUERIES, X, gamma=0.3))


@pytest.mark.parametrize("make", DETECTORS)
def test_a_kernel_that_is_a_function_is_refused(make, tmp_path):
    detector = make(kernel=lambda a, b: a @ b.T).fit(X)
    with pytest.raises(TypeError, match=r"machine\.kernel cannot be stored in a model file: <function"):
        dm.save(detector, tmp_path / "m")
    with pytest.raises(NotFittedError):
        dm.save(make(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


LOAD = """
import sys
import numpy as np, scipy.sparse as sp
import dimargin as dm

rows = np.load(sys.argv[1])
for path in sys.argv[2:]:
    model = dm.load(path)
    X = sp.csr_array(rows) if path.endswith("sparse") else rows
    np.savez(path + ".npz", scores=model.score_samples(X), offset=model[-1].offset_, predicted=model.predict(X))
"""


@pytest.mark.slow
def test_another_process_finds_the_same_outliers(tmp_path):
    queries = np.where(QUERIES > 0, QUERIES, 0.0)
    np.save(tmp_path / "rows.npy", queries)
    models = {}
    for make, kernel, form in product(DETECTORS, ("rbf", "linear", "poly"), ("dense", "sparse")):
        path = str(tmp_path / f"{make.__name__}-{kernel}-{form}")
        models[path] = make_pipeline(MaxAbsScaler(), make(kernel=kernel, C=5.0)).fit(FORMS[form](X))
        dm.save(models[path], path)
    subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "rows.npy"), *models], check=True)
    for path, model in models.items():
        found, rows = np.load(path + ".npz"), sp.csr_array(queries) if path.endswith("sparse") else queries
        assert_array_equal(found["scores"], model.score_samples(rows))
        assert_array_equal(found["predicted"], model.predict(rows))
        assert found["offset"] == model[-1].offset_
        assert set(found["predicted"]) <= {-1, 1}
