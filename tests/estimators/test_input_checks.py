"""Bad input gets an error that names what is wrong, and leaves the estimator as it was."""

import re
import signal
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

import dimargin as dm

X, Y = make_moons(60, noise=0.1, random_state=0)


def spoiled(value, row=7, column=1, matrix=X):
    copy = matrix.copy()
    copy[row, column] = value
    return copy


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lam": 0.0}, r"lam must be a finite number in \(0, inf\), got 0.0"),
        ({"lam": -1}, "lam .* got -1"),
        ({"lam": np.nan}, "lam .* got nan"),
        ({"lam": np.inf}, "lam .* got inf"),
        ({"upsilon": 0.0}, r"upsilon must be a finite number in \(0, 1\], got 0.0"),
        ({"upsilon": 1.5}, "upsilon .* got 1.5"),
        ({"theta": 1.0}, r"theta must be a finite number in \[0, 1\), got 1.0"),
        ({"theta": -0.1}, "theta"),
        ({"theta": np.nan}, "theta"),
        ({"gamma": 0.0}, "gamma must be a finite number"),
        ({"gamma": np.nan}, "gamma"),
        ({"gamma": "sqrt"}, "gamma must be 'scale', 'auto' or a number above 0, got 'sqrt'"),
        ({"tol": 0.0}, "tol"),
        ({"tol": np.nan}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_time": 0.0}, "max_time"),
        ({"degree": 0}, "degree"),
        ({"degree": 1025}, "degree"),
        ({"coef0": np.inf}, "coef0"),
        ({"kernel": "poly", "coef0": -0.01}, "coef0 of at least 0, got -0.01: .* not positive semi-definite"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"memory_limit": -5}, "memory_limit"),
        ({"kernel": "sigmoid"}, "kernel='sigmoid' is not positive semi-definite"),
        ({"strategy": "tree"}, "strategy must be 'auto', 'exact', 'diodm', .* or a strategy object, got 'tree'"),
        ({"strategy": "exact", "n_levels": 2}, "n_levels=2 was set, but strategy 'exact' does not use n_levels"),
        ({"strategy": "exact", "branching": 2}, "branching"),
        (
            {"strategy": "dc", "n_landmarks": 7},
            "'dc' does not use n_landmarks; .* choose strategy='diodm' or 'landmark'$",
        ),
        ({"strategy": "exact", "n_levels": 3}, "choose strategy='diodm' or 'dc' or 'cascade'"),
        ({"strategy": dm.DivideAndConquer(prediction="late")}, "prediction must be .*, got 'late'"),
        ({"strategy": "exact", "n_landmarks": 7}, "n_landmarks"),
        ({"strategy": "exact", "stop_level": 1}, "stop_level"),
        ({"strategy": "diodm", "branching": 1}, "branching"),
        ({"strategy": "diodm", "n_levels": 1, "stop_level": 2}, "stop_level must be at most n_levels=1"),
        ({"strategy": "diodm", "n_levels": 3}, "64 partitions .* more than the 60 rows"),
        ({"strategy": dm.DiODM(level_tol=0)}, "level_tol"),
        ({"strategy": dm.DiODM(sample_size=0)}, "sample_size"),
        ({"strategy": dm.DiODM(landmark_choice="best")}, "landmark_choice must be 'greedy' or 'random', got 'best'"),
        ({"class_weight": {0: -1.0}}, "class_weight must be positive"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    machine = dm.ODMClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        machine.fit(X, Y)
    assert not [name for name in vars(machine) if name.endswith("_")]


@pytest.mark.parametrize(
    "parameters", [{"lam": "large"}, {"lam": None}, {"degree": 2.5}, {"n_levels": 1.5}, {"theta": True}]
)
def test_parameters_of_the_wrong_type(parameters):
    with pytest.raises(TypeError, match=f"{next(iter(parameters))} must be a"):
        dm.ODMClassifier(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (spoiled(np.nan), r"X contains NaN \(row 7, column 1\)"),
        (spoiled(-np.inf), r"X contains infinity \(row 7, column 1\)"),
        (sp.csr_array(spoiled(np.nan)), r"X contains NaN \(row 7, column 1\)"),
        (spoiled(1e200), "column 1 of X is too large"),
        (sp.csr_array(spoiled(1e200)), "column 1 of X is too large"),
        (X[:50], re.escape("inconsistent numbers of samples: [50, 60]")),
    ],
)
def test_bad_rows(data, message):
    with pytest.raises(ValueError, match=message):
        dm.ODMClassifier().fit(data, Y)


def test_bad_rows_are_named_by_feature():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(spoiled(np.nan), columns=["east", "north"])
    with pytest.raises(ValueError, match=r"row 7, column 1 \('north'\)"):
        dm.ODMClassifier().fit(frame, Y)


def test_bad_queries():
    machine = dm.ODMClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"row 7, column 1"):
        machine.predict(spoiled(np.nan))
    with pytest.raises(ValueError, match="3 features, but ODMClassifier is expecting 2 features"):
        machine.predict(np.ones((4, 3)))


def test_one_class():
    with pytest.raises(ValueError, match="one class only: 0"):
        dm.ODMClassifier().fit(X, np.zeros(60, dtype=int))
    with pytest.raises(ValueError, match="one class only after rows with zero weight were dropped"):
        dm.ODMClassifier().fit(X, Y, sample_weight=(Y == 1).astype(float))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        dm.ODMClassifier().fit(X, Y, sample_weight=np.zeros(60))


def test_negative_weights():
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        dm.ODMClassifier().fit(X, Y, sample_weight=-np.ones(60))


def test_memory_is_checked_before_the_work():
    with pytest.raises(MemoryError, match="memory_limit=1000 bytes is too small: this fit needs about"):
        dm.ODMClassifier(memory_limit=1000).fit(X, Y)
    dm.ODMClassifier(memory_limit=10**9).fit(X, Y)


def test_awkward_but_valid_data():
    contradicting = np.concatenate([X, X]), np.concatenate([Y, 1 - Y])
    machine = dm.ODMClassifier().fit(*contradicting)
    assert np.abs(machine.decision_function(X)).max() < 0.5
    constant = np.column_stack([X, np.full(60, 3.0), np.zeros(60)])
    assert dm.ODMClassifier().fit(constant, Y).score(constant, Y) > 0.9
    assert dm.ODMClassifier(gamma="scale").fit(np.ones((60, 2)), Y).duality_gap_ <= 1e-3


def test_a_partition_without_a_class():
    y = np.zeros(60, dtype=int)
    y[:2] = 1  # two positives for four parts
    machine = dm.ODMClassifier(strategy=dm.DiODM(early_stop=False), n_levels=1, random_state=0).fit(X, y)
    assert machine.history_[-1]["level"] == 0
    assert machine.duality_gap_ <= machine.tol


def test_a_failed_fit_leaves_the_model_alone():
    machine = dm.ODMClassifier().fit(X, Y)
    before = dict(vars(machine))
    for bad in (spoiled(np.nan), np.ones((60, 5)) * np.inf):
        with pytest.raises(ValueError, match="contains"):
            machine.fit(bad, Y)
        assert vars(machine) == before
    assert machine.n_features_in_ == 2


@pytest.mark.parametrize("options", [{"strategy": "exact"}, {"strategy": "diodm", "n_levels": 1}])
def test_an_interrupt_leaves_the_model_alone(options):
    many, labels = make_classification(30_000, 30, flip_y=0.3, random_state=0)
    machine = dm.ODMClassifier(**options, lam=1e9, gamma=0.5, tol=1e-10, random_state=0)
    before = dict(vars(machine))
    threads = threading.active_count()

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            machine.fit(many, labels)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert vars(machine) == before
    assert threading.active_count() == threads


# ---- CSR arrays that were changed after SciPy had looked at them --------------------------------------------------

FITTED = {
    "exact": dm.ODMClassifier(),
    "tree": dm.ODMClassifier(strategy="diodm", n_levels=1),
    "clusters": dm.ODMClassifier(strategy="dc"),
    "landmark": dm.ODMClassifier(strategy="landmark"),
    "user kernel": dm.ODMClassifier(kernel=lambda a, b: (a @ b.T).toarray()),
    "hinge": dm.SVMClassifier(),
    "linear": dm.LinearODMClassifier(),
    "stochastic": dm.LinearODMClassifier(solver="svrg"),
    "search": dm.ODMClassifierCV(),
    "core-set": dm.CoreSetSVMClassifier(),
    "ball": dm.CoreSetSVDD(),
    "one class": dm.OneClassCoreSetSVM(),
    "gossip": dm.GossipSVMClassifier(n_sites=2, topology="ring"),
}


def damage(X, part, index, value):
    getattr(X, part)[index] = value
    return X


def cut(X, part):
    setattr(X, part, getattr(X, part)[:-5].copy())
    return X


def wide(X):
    """Numbers of 64 bits, one of which is the right one in the lower 32."""
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    X.indices[10] += 2**32
    return X


DAMAGES = {
    "a column past the last": (lambda X: damage(X, "indices", 10, 2), "row 5 has a value in column 2 of 2"),
    "a column far away": (lambda X: damage(X, "indices", 10, 2**31 - 1), f"row 5 has .* column {2**31 - 1} of 2"),
    "a negative column": (lambda X: damage(X, "indices", 10, -1), "row 5 has a value in column -1 of 2"),
    "a column of 64 bits": (wide, rf"row 5 has a value in column {2**32} of 2"),
    "a row that begins far away": (
        lambda X: damage(X, "indptr", 5, 10**8),
        "row 5 ends at 12, before its start at 10+",
    ),
    "a row that ends before the first": (lambda X: damage(X, "indptr", 5, -(10**7)), "row 4 ends at -10+, before .* 8"),
    "rows that go back": (lambda X: damage(X, "indptr", 5, 21), "row 5 ends at 12, before its start at 21"),
    "a first row that begins later": (lambda X: damage(X, "indptr", 0, 1), r"indptr has 61 entries from \[1\]"),
    "a last row that ends far away": (lambda X: damage(X, "indptr", -1, 10**6), r"to \[1000000\]; expected 61 "),
    "too few numbers": (lambda X: cut(X, "data"), r"to \[120\]; expected 61 entries from 0 to at most 115"),
    "too few columns": (lambda X: cut(X, "indices"), r"to \[120\]; expected 61 entries from 0 to at most 115"),
    "too few rows": (lambda X: cut(X, "indptr"), "indptr has 56 entries"),
}


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_sparse_rows_are_refused(name, how):
    """Compiled code follows any index: without a check these end the process, or are read as other rows."""
    spoil, message = DAMAGES[how]
    machine = clone(FITTED[name])
    labels = [] if name in ("ball", "one class") else [Y]
    with pytest.raises(ValueError, match=f"X is a damaged CSR array: .*{message}"):
        machine.fit(spoil(sp.csr_array(X)), *labels)
    assert not hasattr(machine, "status_")


@pytest.mark.parametrize("name", ["exact", "linear", "core-set", "ball", "user kernel"])
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_sparse_rows_are_refused_by_a_fitted_machine(name, how):
    spoil, message = DAMAGES[how]
    labels = [] if name == "ball" else [Y]
    machine = clone(FITTED[name]).fit(sp.csr_array(X), *labels)
    for method, rest in [("decision_function", ()), ("predict", ()), ("certify", labels)]:
        if hasattr(machine, method):
            with pytest.raises(ValueError, match=f"X is a damaged CSR array: .*{message}"):
                getattr(machine, method)(spoil(sp.csr_array(X)), *rest)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_ball_refuses_damaged_sparse_points(how):
    spoil, message = DAMAGES[how]
    with pytest.raises(ValueError, match=f"points is a damaged CSR array: .*{message}"):
        dm.minimum_enclosing_ball(spoil(sp.csr_array(X)))


@pytest.mark.parametrize(
    "parameters", [{"n_levels": 64}, {"n_levels": 10**400}, {"branching": 10**400}, {"max_iter": 10**400}], ids=repr
)
def test_whole_numbers_beyond_all_bounds(parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be a whole number in"):
        dm.ODMClassifier(**parameters).fit(X, Y)


@pytest.mark.parametrize("make", [dm.ODMClassifier, dm.LinearODMClassifier])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        (["1", "b", "a", "c"], "'b' (row 1)"),
        (pd.Categorical(["a", "b", "a", "c"]), "'a' (row 0)"),
        (pd.to_datetime(["2020-01-01"] * 4), "'2020-01-01T00:00:00"),
        ([1.0, None, "x", "y"], "'x' (row 2)"),
    ],
)
def test_a_column_that_holds_no_numbers_is_named(make, column, value):
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4], "town": column})
    with pytest.raises(ValueError, match=f"column 'town' holds {re.escape(value)}.*expected numbers") as error:
        make().fit(frame, [0, 1, 0, 1])
    assert f"['town']), remainder='passthrough'), {make.__name__}())" in str(error.value)
    machine = make().fit(frame.assign(town=[1.0, 2, 3, 4]), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="column 'town' holds"):
        machine.predict(frame)


@pytest.mark.parametrize("make", [dm.SVMClassifier, dm.LinearODMClassifier, dm.SVMClassifierCV, dm.CoreSetSVDD])
def test_a_mark_of_missing_values_among_numbers_is_named(make):
    """The remedy is that of missing values, not of categories; an array has numbers of columns instead of names."""
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4, 5], "income": ["10", None, "30", "?", "50"]})
    for rows, name in ((frame, "'income'"), (frame.to_numpy(), "1"), (frame.to_numpy(dtype=str), "1")):
        place = "'None' (row 1)" if rows is not frame and rows.dtype.kind == "U" else "'?' (row 3)"
        with pytest.raises(ValueError, match=re.escape(f"column {name} holds {place}, expected numbers.")) as error:
            make().fit(rows, [0, 1, 0, 1, 1])
        assert f"na_values=[{place.split()[0]}]), and impute it: make_pipeline(SimpleImputer(), " in str(error.value)
    with pytest.raises(TypeError, match="must be a string or a real number, not 'dict'"):  # Only texts are named.
        make().fit(np.array([[1.0], [2.0], [{}], [4.0], [5.0]], dtype=object), [0, 1, 0, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        make().fit(frame[:3], [0, 1, 0])


def test_columns_of_texts_that_are_numbers_are_numbers():
    frame = pd.DataFrame({"age": ["1", "2", "3", "4"], "size": [True, False, True, False]})
    assert dm.ODMClassifier().fit(frame, [0, 1, 0, 1]).n_features_in_ == 2
    with pytest.raises(ValueError, match="y contains NaN"):  # its own error, where all columns are numbers
        dm.ODMClassifier().fit(frame, [0, np.nan, 0, 1])


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("make", [dm.SVMClassifier, dm.LinearODMClassifier, dm.SVMClassifierCV])
def test_a_missing_label_is_named(make, missing):
    y = np.array(["a", "b", missing, "a"], dtype=object)
    with pytest.raises(ValueError, match=f"label 2 is missing .{missing}.; y must have a label for every row"):
        make().fit(np.eye(4), y)
