"""LinearSVMClassifierCV and LinearODMClassifierCV."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dimargin as dm

X, y = make_classification(300, 8, n_informative=4, n_classes=3, class_sep=0.6, random_state=0)
TIGHT = {"tol": 1e-6, "random_state": 0}
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
MACHINES = {
    "hinge": (dm.LinearSVMClassifierCV, dm.LinearSVMClassifier, "C", [0.01, 0.3, 3.0], {"loss": "hinge"}),
    "squared": (dm.LinearSVMClassifierCV, dm.LinearSVMClassifier, "C", [0.01, 0.3, 3.0], {"loss": "squared_hinge"}),
    "squared cd": (
        dm.LinearSVMClassifierCV,
        dm.LinearSVMClassifier,
        "C",
        [0.01, 0.3, 3.0],
        {"loss": "squared_hinge", "solver": "cd"},
    ),
    "constant": (
        dm.LinearSVMClassifierCV,
        dm.LinearSVMClassifier,
        "C",
        [0.01, 0.3, 3.0],
        {"loss": "hinge", "intercept_scaling": 2.0},
    ),
    "odm": (dm.LinearODMClassifierCV, dm.LinearODMClassifier, "lam", [1e1, 1e3, 1e5], {}),
    "odm cd": (dm.LinearODMClassifierCV, dm.LinearODMClassifier, "lam", [1e1, 1e3, 1e5], {"solver": "cd"}),
}


def warned(machine, rows, labels):
    """Fit, and return the texts of all warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        machine.fit(rows, labels)
    assert all(issubclass(one.category, ConvergenceWarning) for one in found)
    return " ".join(str(one.message) for one in found)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("store", "balance"), [(np.asarray, None), (sp.csr_array, {0: 5.0})])
def test_scores_and_model_are_those_of_single_machines(name, store, balance):
    searched, single, parameter, values, options = MACHINES[name]
    options = options | TIGHT | {"class_weight": balance}
    found = searched(**{f"{parameter}s": values[::-1]}, cv=FOLDS, store_path=True, **options).fit(store(X), y)
    machines = [single(**{parameter: value}, **options) for value in values]
    scores = np.array([cross_val_score(machine, store(X), y, cv=FOLDS) for machine in machines]).T
    # A row on the boundary may be on either side of it within the tolerance.
    assert np.abs(found.scores_ - scores).max() <= 1 / 100 + 1e-9
    assert np.array_equal(getattr(found, f"{parameter}s_"), values)
    means = found.scores_.mean(axis=0)
    assert found.best_score_ == means.max() and getattr(found, f"{parameter}_") == values[means.argmax()]
    assert found.duality_gaps_.shape == (3, 3) and found.duality_gaps_.max() <= 1e-6
    best = machines[int(means.argmax())].fit(store(X), y)
    assert np.array_equal(found.coef_, best.coef_) and found.duality_gap_ == best.duality_gap_ <= 1e-6
    assert found.score(store(X), y) == best.score(store(X), y)
    assert found.certify(store(X), y).objective_ == pytest.approx(best.objective_)


@pytest.mark.parametrize("name", MACHINES)
def test_every_gap_of_the_path_is_that_of_its_coefficients(name):
    searched, single, parameter, values, options = MACHINES[name]
    options = options | {"class_weight": "balanced", "random_state": 0}  # Shares of classes differ between folds.
    folds = KFold(3, shuffle=True, random_state=0)
    found = searched(**{f"{parameter}s": values}, cv=folds, store_path=True, **options).fit(X, y)
    for fold, (train, _) in enumerate(folds.split(X, y)):
        for index, value in enumerate(values):
            best = single(**{parameter: value}, **options, tol=1e-8)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # Float64 may not certify the gap.
                best.fit(X[train], y[train])
            optimum = best.objective_
            best.coef_, best.intercept_ = found.path_[fold, index, :, :-1], found.path_[fold, index, :, -1]
            gap = found.duality_gaps_[fold, index]
            above = best.certify(X[train], y[train]).objective_ / optimum - 1
            assert above.max() <= gap <= 1e-3


def test_results_do_not_depend_on_threads():
    found = [dm.LinearSVMClassifierCV(Cs=3, cv=4, n_jobs=n, random_state=0).fit(X, y) for n in (1, 3, 8)]
    for other in found[1:]:
        assert np.array_equal(found[0].scores_, other.scores_)
        assert np.array_equal(found[0].duality_gaps_, other.duality_gaps_)
        assert np.array_equal(found[0].coef_, other.coef_)


def test_a_time_limit_gives_the_best_so_far():
    rows, labels = make_classification(4000, 200, n_informative=100, flip_y=0.3, random_state=0)
    machine = dm.LinearSVMClassifierCV(Cs=np.geomspace(1e-6, 1e4, 30), tol=1e-9, max_time=0.6, n_jobs=1, random_state=0)
    assert "the path was cut short after" in warned(machine, rows, labels)
    scored = np.isfinite(machine.scores_)
    assert np.array_equal(scored, np.isfinite(machine.duality_gaps_)) and not scored.all()
    assert machine.C_ in machine.Cs_ and np.isfinite(machine.duality_gap_)
    machine.set_params(max_time=1e-9, Cs=[0.1, 1, 10])
    assert "no fit was scored, and it is C=1" in warned(machine, rows, labels)
    assert machine.C_ == 1 and np.isnan(machine.best_score_) and np.isnan(machine.scores_).all()


def test_weights_of_rows_count_in_fits_and_scores():
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    splits = list(FOLDS.split(X, y))
    found = dm.LinearSVMClassifierCV([0.1, 1.0], cv=splits, scoring="balanced_accuracy", **TIGHT).fit(X, y, weights)
    for fold, (train, test) in enumerate(splits):
        for index, C in enumerate([0.1, 1.0]):
            machine = dm.LinearSVMClassifier(C, **TIGHT).fit(X[train], y[train], weights[train])
            score = get_scorer("balanced_accuracy")(machine, X[test], y[test], sample_weight=weights[test])
            assert found.scores_[fold, index] == pytest.approx(score, abs=0.011)
    assert found.score(X, y) == get_scorer("balanced_accuracy")(found, X, y)


def test_text_in_a_pipeline():
    words = {"good": ["good", "fine"], "bad": ["bad", "poor"]}
    rng, label = np.random.default_rng(0), np.repeat(["bad", "good"], 60)
    texts = [" ".join(rng.choice([*words[own], "film", "plot", "the", "cast"], 6)) for own in label]
    model = make_pipeline(TfidfVectorizer(), dm.LinearSVMClassifierCV(Cs=4, scoring="roc_auc", random_state=0))
    assert model.fit(texts, label).score(texts, label) > 0.99
    assert model[-1].best_score_ > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), dm.LinearODMClassifierCV(lams=3)), X, y, cv=2).mean() > 0.5


def test_wide_rows_keep_coefficients_of_their_columns():
    places = np.arange(8) * 2**36
    wide = sp.csr_array((X.ravel(), np.tile(places, len(X)), np.arange(0, X.size + 1, 8)), shape=(len(X), 2**40))
    found = dm.LinearSVMClassifierCV([0.1, 1.0], store_path=True, random_state=0).fit(wide, y)
    narrow = dm.LinearSVMClassifierCV([0.1, 1.0], store_path=True, random_state=0).fit(sp.csr_array(X), y)
    assert np.array_equal(found.scores_, narrow.scores_) and found.C_ == narrow.C_
    assert found._path_.shape == (5, 2, 3, 2**40 + 1)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"Cs": [1.0, -1.0]}, ValueError, r"Cs\[1\] must be a finite number in \(0, inf\), got -1.0"),
        ({"Cs": []}, ValueError, "Cs must be a whole number or a sequence of positive numbers"),
        ({"Cs": 0}, ValueError, "Cs must be a whole number in"),
        ({"Cs": "many"}, ValueError, "Cs must be a whole number or a sequence"),
        ({"loss": "log"}, ValueError, "loss must be one of"),
        ({"loss": "hinge", "solver": "newton"}, ValueError, "needs a loss with a derivative"),
        ({"cv": [(np.arange(10), np.arange(0))]}, ValueError, "fold 0 of cv="),
        ({"scoring": "neg_log_loss"}, ValueError, "scoring must use labels or decision values"),
    ],
)
def test_errors_name_the_parameter(options, error, match):
    with pytest.raises(error, match=match):
        dm.LinearSVMClassifierCV(**{"random_state": 0} | options).fit(X, y)


def test_fits_above_the_tolerance_are_counted():
    machine = dm.LinearSVMClassifierCV(Cs=3, tol=1e-9, max_iter=2, random_state=0)
    assert "15 of 15 fits of the path have a duality gap above tol=1e-09" in warned(machine, X, y)
