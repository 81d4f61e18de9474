"""Model files whose parts do not fit together are refused before anything is computed with them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons
from test_model import tampered

import dimargin as dm
from dimargin.files import ModelFileError

STORAGES = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.fixture(params=STORAGES)
def routed(request, tmp_path):
    """A level model with clusters divided again, and its arrays by their places in the rule."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    strategy = dm.DivideAndConquer(sample_size=40, max_cluster_size=30)
    machine = dm.SVMClassifier(strategy=strategy, n_levels=1, stop_level=1, random_state=0).fit(
        STORAGES[request.param](X), y
    )
    assert len(machine._router.rule.splits) > 2
    dm.save(machine, tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").decision_function(X), machine.decision_function(X))
    return tmp_path / "m"


def put(name, value, place=-1):
    """Write into an array of the router."""

    def lie(arrays):
        arrays[f"machine._router.{name}"][place] = value

    return lie


def swap(name, make):
    """Another array for one of the router."""

    def lie(arrays):
        arrays[f"machine._router.{name}"] = np.ascontiguousarray(make(arrays[f"machine._router.{name}"]))

    return lie


LIES = {
    "a vector of a cluster that there is not": put("clusters", 10**6),
    "a vector of a negative cluster": put("clusters", -1),
    "too few clusters of vectors": swap("clusters", lambda a: a[:-1]),
    "clusters of another type": swap("clusters", lambda a: a.astype(np.int32)),
    "clusters of fractions": swap("clusters", lambda a: a.astype(np.float64)),
    "two columns of clusters": swap("clusters", lambda a: np.stack([a, a])),
    "a target beyond the clusters": put("splits.0.targets", 2**60),
    "a target beyond the splits": put("splits.0.targets", -(10**6)),
    "a split that leads to itself": put("splits.1.targets", -2),
    "a split that leads back": put("splits.2.targets", -2),
    "targets of another type": swap("splits.0.targets", lambda a: a.astype(np.int16)),
    "too few targets": swap("splits.0.targets", lambda a: a[:-1]),
    "a bound beyond the vectors": put("splits.0.bounds", 10**9),
    "a negative bound": put("splits.0.bounds", -1, 0),
    "bounds that do not rise": put("splits.0.bounds", 0, 1),
    "bounds that end early": swap("splits.0.bounds", lambda a: np.r_[a[:-1], a[-1] - 1]),
    "bounds that begin late": put("splits.0.bounds", 1, 0),
    "bounds of fractions": swap("splits.0.bounds", lambda a: a.astype(np.float64)),
    "too few bounds": swap("splits.0.bounds", lambda a: a[[0, -1]]),
    "too few shares": swap("splits.0.shares", lambda a: a[:-1]),
    "shares of whole numbers": swap("splits.0.shares", lambda a: a.astype(np.int64)),
    "an infinite share": put("splits.0.shares", np.inf),
    "a norm that is no number": put("splits.0.norms", np.nan),
    "too few norms": swap("splits.0.norms", lambda a: a[:-1]),
}
DENSE = {
    "wider vectors": swap("splits.0.vectors", lambda a: np.c_[a, a]),
    "fewer vectors": swap("splits.0.vectors", lambda a: a[:-1]),
    "vectors of whole numbers": swap("splits.0.vectors", lambda a: a.astype(np.int64)),
    "deep vectors": swap("splits.0.vectors", lambda a: a[..., None]),
    "flat vectors": swap("splits.0.vectors", np.ravel),
    "a short centre": swap("transform.center", lambda a: a[:1]),
}
SPARSE = {
    "a column beyond the last": put("splits.0.vectors.indices", 2),
    "a negative column": put("splits.0.vectors.indices", -1),
    "an offset beyond the data": put("splits.0.vectors.indptr", 10**6),
    "fewer offsets": swap("splits.0.vectors.indptr", lambda a: a[:-1]),
}


@pytest.mark.parametrize(
    ("routed", "lie"),
    [(storage, lie) for storage, more in (("dense", DENSE), ("sparse", SPARSE)) for lie in LIES | more],
    indirect=["routed"],
)
def test_a_router_that_lies_is_refused(routed, lie):
    tampered(routed, lambda header, arrays: (LIES | DENSE | SPARSE)[lie](arrays))
    with pytest.raises(ModelFileError, match="no sound model"):
        dm.load(routed)


def router(header):
    return header["steps"][0]["attributes"]["_router"]["router"]


HEADERS = {
    "no splits": lambda r: r["splits"]["tuple"].clear(),
    "a missing split": lambda r: r["splits"]["tuple"].pop(),
    "a number for a split": lambda r: r["splits"]["tuple"].append(3),
    "a split with a part that there is not": lambda r: r["splits"]["tuple"][0]["split"].update({"command": "x"}),
    "a split without targets": lambda r: r["splits"]["tuple"][0]["split"].pop("targets"),
    "no transform": lambda r: r.update({"transform": None}),
    "a number for a rule": lambda r: r.update({"splits": 3}),
    "no clusters": lambda r: r.pop("clusters"),
}


@pytest.mark.parametrize("lie", sorted(HEADERS))
def test_a_header_that_lies_about_the_router_is_refused(routed, lie):
    tampered(routed, lambda header, arrays: HEADERS[lie](router(header)))
    with pytest.raises(ModelFileError, match="no sound model"):
        dm.load(routed)


@pytest.mark.parametrize(
    "lie",
    [
        swap("slopes", lambda a: a[:-1]),
        swap("slopes", lambda a: np.c_[a, a]),
        swap("slopes", lambda a: a.astype(np.int64)),
        put("slopes", np.nan),
        swap("prior", lambda a: np.r_[a, a]),
        put("prior", np.inf),
    ],
)
def test_a_committee_that_lies_is_refused(tmp_path, lie):
    X, y = make_moons(200, noise=0.2, random_state=0)
    machine = dm.SVMClassifier(strategy=dm.DivideAndConquer(prediction="bcm"), n_levels=1, stop_level=1)
    dm.save(machine.fit(X, y), tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").decision_function(X), machine.decision_function(X))
    tampered(tmp_path / "m", lambda header, arrays: lie(arrays))
    with pytest.raises(ModelFileError, match="no sound model"):
        dm.load(tmp_path / "m")


def test_a_rule_for_rows_of_the_other_storage_is_refused(routed, tmp_path):
    X, y = make_moons(200, noise=0.2, random_state=0)
    machine = dm.load(routed)
    other = np.asarray if sp.issparse(machine.support_vectors_) else sp.csr_array
    foreign = dm.SVMClassifier(**machine.get_params(deep=False)).fit(other(X), y)
    machine._router = foreign._router.take(np.zeros(len(machine.support_), dtype=np.int64))
    dm.save(machine, tmp_path / "foreign")
    with pytest.raises(ModelFileError, match="no sound model"):
        dm.load(tmp_path / "foreign")
