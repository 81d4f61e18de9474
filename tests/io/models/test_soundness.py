"""Model files of classifiers and scalers whose parts do not fit together are refused before anything is computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from tampering import array_of, entry_of, refuse, tampered, told

import dimargin as dm
from dimargin.estimators.preprocessing import SparseScaler

STORAGES = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.fixture(params=STORAGES)
def routed(request, tmp_path):
    """A level model with clusters divided again, and its arrays by their indices in the rule."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    strategy = dm.DivideAndConquer(sample_size=40, max_cluster_size=30)
    machine = dm.SVMClassifier(strategy=strategy, n_levels=1, stop_level=1, random_state=0).fit(
        STORAGES[request.param](X), y
    )
    assert len(machine._router.rule.splits) > 2
    dm.save(machine, tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").decision_function(X), machine.decision_function(X))
    return tmp_path / "m"


LIES = {
    "a vector of a cluster that there is not": entry_of("_router.clusters", 10**6),
    "a vector of a negative cluster": entry_of("_router.clusters", -1),
    "too few clusters of vectors": array_of("_router.clusters", lambda a: a[:-1]),
    "clusters of another type": array_of("_router.clusters", lambda a: a.astype(np.int32)),
    "clusters of fractions": array_of("_router.clusters", lambda a: a.astype(np.float64)),
    "two columns of clusters": array_of("_router.clusters", lambda a: np.stack([a, a])),
    "a target beyond the clusters": entry_of("_router.splits.0.targets", 2**60),
    "a target beyond the splits": entry_of("_router.splits.0.targets", -(10**6)),
    "a split that leads to itself": entry_of("_router.splits.1.targets", -2),
    "a split that leads back": entry_of("_router.splits.2.targets", -2),
    "targets of another type": array_of("_router.splits.0.targets", lambda a: a.astype(np.int16)),
    "too few targets": array_of("_router.splits.0.targets", lambda a: a[:-1]),
    "a bound beyond the vectors": entry_of("_router.splits.0.bounds", 10**9),
    "a negative bound": entry_of("_router.splits.0.bounds", -1, 0),
    "bounds that do not rise": entry_of("_router.splits.0.bounds", 0, 1),
    "bounds that end early": array_of("_router.splits.0.bounds", lambda a: np.r_[a[:-1], a[-1] - 1]),
    "bounds that begin late": entry_of("_router.splits.0.bounds", 1, 0),
    "bounds of fractions": array_of("_router.splits.0.bounds", lambda a: a.astype(np.float64)),
    "too few bounds": array_of("_router.splits.0.bounds", lambda a: a[[0, -1]]),
    "too few shares": array_of("_router.splits.0.shares", lambda a: a[:-1]),
    "shares of whole numbers": array_of("_router.splits.0.shares", lambda a: a.astype(np.int64)),
    "an infinite share": entry_of("_router.splits.0.shares", np.inf),
    "a norm that is no number": entry_of("_router.splits.0.norms", np.nan),
    "too few norms": array_of("_router.splits.0.norms", lambda a: a[:-1]),
}
DENSE = {
    "wider vectors": array_of("_router.splits.0.vectors", lambda a: np.c_[a, a]),
    "fewer vectors": array_of("_router.splits.0.vectors", lambda a: a[:-1]),
    "vectors of whole numbers": array_of("_router.splits.0.vectors", lambda a: a.astype(np.int64)),
    "deep vectors": array_of("_router.splits.0.vectors", lambda a: a[..., None]),
    "flat vectors": array_of("_router.splits.0.vectors", np.ravel),
    "a short centre": array_of("_router.transform.center", lambda a: a[:1]),
}
SPARSE = {
    "a column beyond the last": entry_of("_router.splits.0.vectors.indices", 2),
    "a negative column": entry_of("_router.splits.0.vectors.indices", -1),
    "an offset beyond the data": entry_of("_router.splits.0.vectors.indptr", 10**6),
    "fewer offsets": array_of("_router.splits.0.vectors.indptr", lambda a: a[:-1]),
}


@pytest.mark.parametrize(
    ("routed", "lie"),
    [(storage, lie) for storage, more in (("dense", DENSE), ("sparse", SPARSE)) for lie in LIES | more],
    indirect=["routed"],
)
def test_a_router_that_lies_is_refused(routed, lie):
    refuse(routed, (LIES | DENSE | SPARSE)[lie])


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
    refuse(routed, lambda header, arrays: HEADERS[lie](router(header)))


@pytest.mark.parametrize(
    "lie",
    [
        array_of("_router.slopes", lambda a: a[:-1]),
        array_of("_router.slopes", lambda a: np.c_[a, a]),
        array_of("_router.slopes", lambda a: a.astype(np.int64)),
        entry_of("_router.slopes", np.nan),
        array_of("_router.prior", lambda a: np.r_[a, a]),
        entry_of("_router.prior", np.inf),
    ],
)
def test_a_committee_that_lies_is_refused(tmp_path, lie):
    X, y = make_moons(200, noise=0.2, random_state=0)
    machine = dm.SVMClassifier(strategy=dm.DivideAndConquer(prediction="bcm"), n_levels=1, stop_level=1)
    dm.save(machine.fit(X, y), tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").decision_function(X), machine.decision_function(X))
    refuse(tmp_path / "m", lie)


def test_a_rule_for_rows_of_the_other_storage_is_refused(routed, tmp_path):
    X, y = make_moons(200, noise=0.2, random_state=0)
    machine = dm.load(routed)
    other = np.asarray if sp.issparse(machine.support_vectors_) else sp.csr_array
    foreign = dm.SVMClassifier(**machine.get_params(deep=False)).fit(other(X), y)
    machine._router = foreign._router.take(np.zeros(len(machine.support_), dtype=np.int64))
    with pytest.raises(TypeError, match="the model cannot be saved: step 'machine': its arrays do not fit together"):
        dm.save(machine, tmp_path / "foreign")


# ---- pairs of classes ------------------------------------------------------------------------------------------------


@pytest.fixture
def paired(tmp_path):
    """A machine for every pair of four classes."""
    X, y = make_blobs(120, 3, centers=4, cluster_std=3.0, random_state=0)
    machine = dm.SVMClassifier(multi_class="one_vs_one", fit_intercept=True).fit(X, y)
    dm.save(machine, tmp_path / "m")
    restored = dm.load(tmp_path / "m")
    assert np.array_equal(restored.decision_function(X), machine.decision_function(X))
    assert np.array_equal(restored.certify(X, y).objective_, machine.certify(X, y).objective_)
    return tmp_path / "m"


PAIRS = {
    "too few coefficients": array_of("dual_coef_", lambda a: a[:2]),
    "too few vectors": array_of("dual_coef_", lambda a: a[:, 1:]),
    "intercepts of one class against the rest": array_of("intercept_", lambda a: a[:4]),
    "an intercept that is no number": array_of("intercept_", lambda a: a * np.nan),
    "vectors that no class has": array_of("n_support_", lambda a: a - 1),
    "vectors of too many classes": array_of("n_support_", lambda a: np.r_[a, 0].astype(a.dtype)),
    "a negative number of vectors": array_of("n_support_", lambda a: a + np.array([-2000, 2000, 0, 0], dtype=a.dtype)),
    "half a vector": array_of("n_support_", lambda a: a.astype(np.float64)),
    "an unknown rule": lambda header, _: header["steps"][0]["parameters"].update(pair_scores="x"),
    "a list of rules": lambda header, _: header["steps"][0]["parameters"].update(pair_scores={"list": ["votes"]}),
    "too few objectives": array_of("objective_", lambda a: a[:0]),
    "dual objectives of classes": array_of("dual_objective_", lambda a: a[:4]),
}


def test_one_problem_has_a_number_as_its_objective(tmp_path):
    dm.save(dm.SVMClassifier().fit(*make_moons(40, random_state=0)), tmp_path / "m")

    def lie(header, arrays):
        header["steps"][0]["attributes"]["objective_"] = {"array": "machine.objective_"}
        arrays["machine.objective_"] = np.ones(1)

    refuse(tmp_path / "m", lie)


@pytest.mark.parametrize("lie", PAIRS)
def test_pairs_that_lie_are_refused(paired, lie):
    refuse(paired, PAIRS[lie])


# ---- classifiers and scalers -----------------------------------------------------------------------------------------

MOONS = make_moons(40, noise=0.2, random_state=0)
FAR = sp.csr_array((MOONS[0].ravel(), np.tile([3, 10**6], 40), 2 * np.arange(41)), shape=(40, 10**7))
TRAINED = {
    "odm": lambda: dm.ODMClassifier().fit(*MOONS),
    "svm of values": lambda: dm.SVMClassifier(kernel="precomputed").fit(MOONS[0] @ MOONS[0].T, MOONS[1]),
    "linear": lambda: dm.LinearODMClassifier().fit(*MOONS),
    "minmax": lambda: make_pipeline(MinMaxScaler(), dm.LinearODMClassifier()).fit(*MOONS),
    "standard": lambda: make_pipeline(StandardScaler(), dm.LinearODMClassifier()).fit(*MOONS),
    "maxabs": lambda: make_pipeline(MaxAbsScaler(), dm.LinearODMClassifier()).fit(*MOONS),
    "wide": lambda: dm.LinearODMClassifier().fit(FAR, MOONS[1]),
    "wide ball": lambda: dm.CoreSetSVDD(kernel="linear").fit(FAR),
    "sparse": lambda: make_pipeline(SparseScaler(), dm.SVMClassifier()).fit(FAR, MOONS[1]),
}


def set_parameter(**values):
    return lambda h, a: h["steps"][0]["parameters"].update(values)


def kept(name, **values):
    """Something else in the columns that are kept of an array."""

    def lie(header, arrays):
        own = header["steps"][0]["attributes"][name]
        (own["tuple"][0] if "tuple" in own else own).update(values)

    return lie


def labels(*values, dtype="|O"):
    return {"labels": list(values), "dtype": dtype}


OF_STEPS = {
    "no width": told(n_features_in_=None),
    "a width of text": told(n_features_in_="2"),
    "a width that is true": told(n_features_in_=True),
    "half a width": told(n_features_in_=2.0),
    "one name of two": told(feature_names_in_=labels("a")),
    "names that are numbers": told(feature_names_in_=labels(1, 2)),
    "a list of names": told(feature_names_in_={"list": ["a", "b"]}),
}
OF_CLASSIFIERS = OF_STEPS | {
    "threads of text": set_parameter(n_jobs="many"),
    "half a thread": set_parameter(n_jobs=1.5),
    "no thread": set_parameter(n_jobs=0),
    "a status that is a number": told(status_=3),
    "a gap of text": told(duality_gap_="small"),
    "an objective of text": told(objective_="low"),
    "a history of text": told(history_="long"),
    "a history of numbers": told(history_={"list": [1]}),
    "half a pass": told(n_iter_=1.5),
    "one class twice": told(classes_=labels("a", "a")),
    "one class": told(classes_=labels("a")),
    "a class that is none": told(classes_=labels("a", None)),
    "classes in a list": told(classes_={"list": [0, 1]}),
    "classes that are lists": told(classes_=labels({"list": []}, {"list": [1]})),
    "an infinite intercept": array_of("intercept_", lambda a: np.full_like(a, np.inf)),
    "an intercept of whole numbers": array_of("intercept_", lambda a: a.astype(np.int64)),
}
OF_MACHINES = OF_CLASSIFIERS | {
    "places of fractions": array_of("support_", lambda a: a.astype(np.float64)),
    "a negative place": array_of("support_", lambda a: a - 100),
    "a place beyond the rows": array_of("support_", lambda a: a + 100),
    "rows of text": told(_n_given="many"),
    "a kernel that is a number": set_parameter(kernel=3),
}
OF_CLASSES = {
    "odm": OF_MACHINES
    | {
        "a vector that is no number": array_of("support_vectors_", lambda a: a * np.nan),
        "values that were not given": told(_transform={"precomputed_kernel": True}),
    },
    "svm of values": OF_MACHINES | {"fewer columns than rows": told(n_features_in_=39)},
    "linear": OF_CLASSIFIERS
    | {
        "coefficients of whole numbers": array_of("coef_", lambda a: a.astype(np.int64)),
        "weights that are no number": array_of("_partial.0", lambda a: a * np.nan),
        "a weight of text": lambda h, a: h["steps"][0]["attributes"]["_partial"]["tuple"].__setitem__(1, "x"),
    },
    "minmax": OF_STEPS
    | {
        "no scale": told(scale_=None),
        "no minimum": told(min_=None),
        "nothing at all": told(scale_=None, min_=None, data_min_=None, data_max_=None, data_range_=None),
        "a scale of text": told(scale_="wide"),
        "a scale that is no number": array_of("scale_", lambda a: a * np.nan),
        "one range": array_of("scale_", lambda a: a[:1]),
        "a clip of text": set_parameter(clip="some"),
    },
    "standard": OF_STEPS
    | {
        "no mean": told(mean_=None),
        "no scale": told(scale_=None),
        "a mean of none": told(mean_={"tuple": []}),
        "whole means": array_of("mean_", lambda a: a.astype(np.int64)),
        "a copy of text": set_parameter(copy="some"),
    },
    "wide": OF_CLASSIFIERS
    | {
        "another width": kept("coef_", width=10**6),
        "a width of text": kept("coef_", width="x"),
        "columns beyond the width": array_of("coef_.columns", lambda a: a + 10**7),
        "negative columns": array_of("coef_.columns", lambda a: a - 10**7),
        "columns in no order": array_of("coef_.columns", lambda a: a[::-1]),
        "one column twice": array_of("coef_.columns", lambda a: np.full_like(a, a[0])),
        "columns of fractions": array_of("coef_.columns", lambda a: a.astype(np.float64)),
        "fewer columns": array_of("coef_.columns", lambda a: a[:1]),
        "fewer coefficients": array_of("coef_.values", lambda a: a[:, :1]),
        "coefficients that are no number": array_of("coef_.values", lambda a: a * np.nan),
        "one coefficient": array_of("coef_.values", lambda a: a[0, 0]),
        "no columns": kept("coef_", sparse_columns={}),
        "a CSR array by a text": kept("coef_", is_csr="yes"),
        "another width of parameters": kept("_partial", width=10**7),
        "other columns of parameters": array_of("_partial.0.columns", lambda a: a - (np.arange(len(a)) == 0)),
        "dense parameters": lambda h, a: h["steps"][0]["attributes"]["_partial"]["tuple"].__setitem__(0, 3.0),
    },
    "wide ball": {
        "another width": kept("center_", width=10**7 - 1),
        "a middle that is no number": array_of("center_.values", lambda a: a * np.inf),
        "a CSR array of one dimension": kept("center_", is_csr=True),
        "two middles": array_of("center_.values", lambda a: np.stack([a, a])),
    },
    "sparse": OF_STEPS
    | {
        "no scale": told(scale_=None),
        "no columns": told(columns_=None),
        "another method": set_parameter(method="quantile"),
        "a method that is a number": set_parameter(method=1),
        "one scale": array_of("scale_", lambda a: a[:1]),
        "a scale of zero": array_of("scale_", lambda a: 0 * a),
        "a scale that is no number": array_of("scale_", lambda a: a * np.nan),
        "a negative column": array_of("columns_", lambda a: a - 10),
        "a column beyond the width": array_of("columns_", lambda a: a + 10**7),
        "columns in no order": array_of("columns_", lambda a: a[::-1]),
        "columns of 32 bits": array_of("columns_", lambda a: a.astype(np.int32)),
        "a scale of text": told(scale_="x"),
    },
    "maxabs": OF_STEPS | {"no scale": told(scale_=None), "two scales": array_of("scale_", lambda a: np.stack([a, a]))},
}


@pytest.fixture(scope="module")
def trained_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    for kind, train in TRAINED.items():
        dm.save(train(), folder / kind)
    return folder


@pytest.mark.parametrize(("kind", "lie"), [(kind, lie) for kind in OF_CLASSES for lie in OF_CLASSES[kind]])
def test_a_step_that_lies_is_refused(kind, lie, trained_files, tmp_path):
    path = tmp_path / "m"
    path.write_bytes((trained_files / kind).read_bytes())
    dm.load(path)
    refuse(path, OF_CLASSES[kind][lie])


@pytest.mark.parametrize(
    "notes",
    [None, [], {"label": 1.5}, {"label": ["y"]}, {"zero_based": "x"}, {"zero_based": []}, {"thousands": ";"}],
    ids=repr,
)
def test_notes_that_commands_cannot_read_are_refused(notes, trained_files, tmp_path):
    path = tmp_path / "m"
    path.write_bytes((trained_files / "odm").read_bytes())
    refuse(path, lambda header, arrays: header.update(notes=notes))


def test_a_scaler_needs_only_what_it_scales_by(tmp_path):
    scaler = StandardScaler(with_mean=False)
    model = make_pipeline(scaler, dm.LinearODMClassifier()).fit(sp.csr_array(MOONS[0]), MOONS[1])
    dm.save(model, tmp_path / "m")
    tampered(tmp_path / "m", told(mean_=None) if hasattr(scaler, "mean_") and scaler.mean_ is not None else told())
    assert dm.load(tmp_path / "m").predict(MOONS[0]).shape == (40,)
