"""The scaler of sparse rows, beside scikit-learn's."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dimargin as dm
from dimargin.estimators.preprocessing import SparseScaler

SCIKIT_LEARN = {"maxabs": MaxAbsScaler(), "standard": StandardScaler(with_mean=False)}
RNG = np.random.default_rng(0)
X = np.where(RNG.random((80, 12)) < 0.3, RNG.normal(size=(80, 12)), 0.0)
X[:, [2, 7]] = 0.0
X[:, 3] = 4.0
QUERIES = RNG.normal(size=(30, 12))


@parametrize_with_checks([SparseScaler()])
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", SCIKIT_LEARN)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_scaled_as_by_scikit_learn(method, dtype):
    rows, queries = (sp.csr_array(given.astype(dtype)) for given in (X, QUERIES))
    ours, theirs = SparseScaler(method).fit(rows), SCIKIT_LEARN[method].fit(rows)
    for given in (rows, queries):
        scaled = ours.transform(given)
        assert scaled.dtype == dtype and (scaled.indptr == given.indptr).all()
        assert_allclose(
            scaled.toarray(), theirs.transform(given).toarray(), rtol=1e-6 if dtype is np.float32 else 1e-14
        )
    assert_array_equal(ours.columns_, np.flatnonzero(X.any(axis=0)))
    assert_array_equal(rows.toarray(), X.astype(dtype))  # nothing was done in place


@pytest.mark.parametrize("method", SCIKIT_LEARN)
def test_billions_of_columns(method, tmp_path):
    places, width = np.sort(RNG.choice(10**12, 12, replace=False)), 10**12
    rows, queries = (sp.csr_array(given) for given in (X, QUERIES))
    wide = [
        sp.csr_array((given.data, places[given.indices], given.indptr.astype(np.int64)), shape=(len(ends), width))
        for given in (rows, queries)
        for ends in [given.indptr[1:]]
    ]
    y = X[:, 0] > 0
    model = make_pipeline(SparseScaler(method), dm.SVMClassifier(gamma=0.1)).fit(wide[0], y)
    narrow = make_pipeline(SCIKIT_LEARN[method], dm.SVMClassifier(gamma=0.1)).fit(rows, y)
    assert_allclose(model.decision_function(wide[1]), narrow.decision_function(queries), atol=1e-5)
    dm.save(model, tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 10**5
    for again in (dm.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.decision_function(wide[1]), model.decision_function(wide[1]))


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="method must be one of 'maxabs', 'standard', got 'quantile'"):
        SparseScaler("quantile").fit(X)
    with pytest.raises(NotFittedError):
        SparseScaler().transform(X)
    with pytest.raises(ValueError, match="X has 3 features, but SparseScaler is expecting 12"):
        SparseScaler().fit(X).transform(X[:, :3])
    nothing = SparseScaler().fit(sp.csr_array((4, 10**10)))
    assert nothing.transform(sp.csr_array(([2.0], [10**9], [0, 1]), shape=(1, 10**10))).data.tolist() == [2.0]
