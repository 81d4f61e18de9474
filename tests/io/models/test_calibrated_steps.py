"""Calibrated classifiers in model files: the probabilities of a loaded model are those of the saved one."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, SplineTransformer, StandardScaler
from sklearn.svm import SVC
from tampering import refuse

import dimargin as dm
from dimargin.io.models.conversion import load_with_header

HAS_TEMPERATURE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
METHODS = ["sigmoid", "isotonic", *(["temperature"] if HAS_TEMPERATURE else [])]
MOONS = make_moons(120, noise=0.3, random_state=0)
IRIS = load_iris(return_X_y=True)
DATA = {
    "numbers": MOONS,
    "texts": (MOONS[0], np.array(["spam", "ham"])[MOONS[1]]),
    "three": (IRIS[0], np.array(["setosa", "versicolor", "virginica"], dtype=object)[IRIS[1]]),
}


def machine():
    return dm.SVMClassifier(random_state=0)


MODELS = {
    "one machine": lambda method: CalibratedClassifierCV(machine(), method=method, ensemble=False),
    "machines of folds": lambda method: CalibratedClassifierCV(machine(), method=method, cv=3, ensemble=True),
    "splitter": lambda method: CalibratedClassifierCV(
        dm.LinearODMClassifier(random_state=0), method=method, cv=StratifiedKFold(3), ensemble=False
    ),
    "around a pipeline": lambda method: CalibratedClassifierCV(make_pipeline(MinMaxScaler(), machine()), method=method),
    "around nested pipelines": lambda method: CalibratedClassifierCV(
        make_pipeline(make_pipeline(PCA(2), "passthrough"), None, machine()), method=method, cv=2
    ),
    "in a search": lambda method: GridSearchCV(
        CalibratedClassifierCV(machine(), cv=2), {"estimator__C": [1.0], "method": [method]}, cv=2
    ),
    "in a pipeline": lambda method: make_pipeline(
        StandardScaler(), CalibratedClassifierCV(machine(), method=method, ensemble=False)
    ),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_probabilities_come_back_bit_for_bit(name, method, data, tmp_path):
    X, y = DATA[data]
    model = MODELS[name](method).fit(X, y)
    dm.save(model, tmp_path / "a")
    loaded = dm.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert loaded.classes_.tolist() == model.classes_.tolist() and loaded.n_features_in_ == model.n_features_in_
    dm.save(loaded, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_of_a_search_come_back(method, tmp_path):
    X, y = DATA["texts"]
    model = CalibratedClassifierCV(GridSearchCV(machine(), {"C": [1.0, 10.0]}, cv=2), method=method, cv=2).fit(X, y)
    dm.save(model, tmp_path / "m")
    loaded = dm.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    inside, before = (one.calibrated_classifiers_[0].estimator for one in (loaded, model))
    assert inside.best_params_ == before.best_params_


def test_probabilities_of_texts_come_back(tmp_path):
    texts, y = ["a prize", "win money", "the meeting", "a report"] * 5, [0, 0, 1, 1] * 5
    model = CalibratedClassifierCV(make_pipeline(TfidfVectorizer(), dm.LinearODMClassifier(max_iter=5)), cv=2)
    dm.save(model.fit(texts, y), tmp_path / "m")
    np.testing.assert_array_equal(dm.load(tmp_path / "m").predict_proba(texts), model.predict_proba(texts))


def test_a_new_process_predicts_the_same(tmp_path):
    X, y = DATA["three"]
    probabilities = {}
    for method in METHODS:
        model = make_pipeline(MinMaxScaler(), MODELS["one machine"](method)).fit(X, y)
        dm.save(model, tmp_path / method)
        probabilities[method] = model.predict_proba(X).tolist()
    np.save(tmp_path / "X.npy", X)
    program = (
        "import sys, json, numpy, dimargin\nX = numpy.load(sys.argv[1])\n"
        "print(json.dumps({p.rpartition('/')[2]: dimargin.load(p).predict_proba(X).tolist() for p in sys.argv[2:]}))"
    )
    command = [sys.executable, "-c", program, *map(str, [tmp_path / "X.npy", *(tmp_path / name for name in METHODS)])]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == probabilities


def test_a_loaded_model_has_its_certificate_and_can_be_fitted(tmp_path):
    X, y = DATA["texts"]
    model = MODELS["one machine"]("sigmoid").fit(X, y)
    dm.save(model, tmp_path / "m")
    loaded = dm.load(tmp_path / "m")
    inside, before = (one.calibrated_classifiers_[0].estimator for one in (loaded, model))
    assert inside.duality_gap_ == before.duality_gap_ and inside.certificate_ == "global"
    np.testing.assert_array_equal(inside.decision_function(X), before.decision_function(X))
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.fit(X, y).predict_proba(X), model.predict_proba(X))


def test_a_frozen_machine_stays_frozen(tmp_path):
    X, y = MOONS
    model = CalibratedClassifierCV(FrozenEstimator(machine().fit(X[:60], y[:60]))).fit(X[60:], y[60:])
    dm.save(model, tmp_path / "m")
    loaded = dm.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert isinstance(loaded.estimator, FrozenEstimator)
    np.testing.assert_array_equal(loaded.fit(X[60:], y[60:]).predict_proba(X), model.predict_proba(X))


@pytest.mark.skipif(not HAS_TEMPERATURE, reason="temperature scaling needs scikit-learn 1.8")
def test_the_machine_below_a_temperature_has_the_labels(tmp_path):
    """scikit-learn trains it on 0, 1 and so on if the labels are texts."""
    X, y = DATA["texts"]
    model = MODELS["one machine"]("temperature").fit(X, y)
    assert model.calibrated_classifiers_[0].estimator.classes_.tolist() == [0, 1]
    dm.save(model, tmp_path / "m")
    inside = dm.load(tmp_path / "m").calibrated_classifiers_[0].estimator
    assert inside.classes_.tolist() == ["ham", "spam"] and inside.score(X, y) > 0.8
    assert model.calibrated_classifiers_[0].estimator.classes_.tolist() == [0, 1]  # The saved model is unchanged.


def test_what_cannot_be_saved_is_named(tmp_path):
    X, y = MOONS
    with pytest.raises(TypeError, match="CalibratedClassifierCV of SVC; expected a classifier of dimargin"):
        dm.save(CalibratedClassifierCV(SVC()).fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match="SplineTransformer"):
        dm.save(CalibratedClassifierCV(make_pipeline(SplineTransformer(), machine())).fit(X, y), tmp_path / "m")
    few = np.r_[y[:-1], 2]  # Two of three folds are trained without the third class.
    splits = [(np.arange(len(y) - 1), np.arange(60)), (np.arange(len(y)), np.arange(60, 120))]
    with pytest.raises(TypeError, match=r"of the classes \[0, 1, 2\] with a machine of the classes \[0, 1\]"):
        dm.save(CalibratedClassifierCV(machine(), cv=splits, ensemble=True).fit(X, few), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def members(header):
    """Encoded members of a calibrated classifier."""
    return header["steps"][0]["attributes"]["members"]["list"]


def part(header, name, member=0):
    """Encoded pair of a name and a value of a member."""
    return next(pair for pair in members(header)[member]["dict"] if pair[0] == name)


def number(header, index=0):
    """Encoded pair of the first number of a calibrator."""
    return part(header, "calibrators")[1]["list"][index]["dict"][0]


def put(target, key, value):
    target[key] = value


def relabelled(header, arrays):
    header["steps"][0]["attributes"]["classes_"]["labels"].reverse()


LIES = {
    "no members": lambda h, a: members(h).clear(),
    "no calibrator": lambda h, a: part(h, "calibrators")[1]["list"].clear(),
    "two calibrators": lambda h, a: part(h, "calibrators")[1]["list"].append(part(h, "calibrators")[1]["list"][0]),
    "a text": lambda h, a: put(number(h), 1, "x"),
    "infinite": lambda h, a: put(number(h), 1, float("inf")),
    "another number": lambda h, a: put(number(h), 0, "c_"),
    "another method": lambda h, a: put(h["steps"][0]["parameters"], "method", "isotonic"),
    "an unknown method": lambda h, a: put(h["steps"][0]["parameters"], "method", "platt"),
    "another cv": lambda h, a: put(h["steps"][0]["parameters"], "cv", "x"),
    "another ensemble": lambda h, a: put(h["steps"][0]["parameters"], "ensemble", "x"),
    "no ensemble": lambda h, a: h["steps"][0]["parameters"].pop("ensemble"),
    "other classes": relabelled,
    "another width": lambda h, a: put(h["steps"][0]["attributes"], "n_features_in_", 3),
    "a scaler as machine": lambda h, a: put(
        part(h, "steps")[1]["list"][0]["tuple"][1]["step"], "class", "MinMaxScaler"
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_does_not_fit_is_refused(lie, tmp_path):
    X, y = DATA["texts"]
    dm.save(MODELS["one machine"]("sigmoid").fit(X, y), tmp_path / "m")
    load_with_header(tmp_path / "m")
    refuse(tmp_path / "m", LIES[lie])


THRESHOLDS = {
    "descending": lambda x, y: (x, y[::-1]),
    "not a number": lambda x, y: (np.r_[x[:-1], np.nan], y),
    "above one": lambda x, y: (x, y + 1),
    "too few": lambda x, y: (x[1:], y),
    "repeated": lambda x, y: (np.r_[x[:1], x[:1], x[2:]], y),
    "integers": lambda x, y: (np.arange(len(x)), y),
}


@pytest.mark.parametrize("lie", THRESHOLDS)
def test_thresholds_that_isotonic_regression_cannot_yield_are_refused(lie, tmp_path):
    X, y = DATA["texts"]
    dm.save(MODELS["one machine"]("isotonic").fit(X, y), tmp_path / "m")

    def change(header, arrays):
        names = [value["array"] for _, value in part(header, "calibrators")[1]["list"][0]["dict"]]
        for name, values in zip(names, THRESHOLDS[lie](*(arrays[name] for name in names)), strict=True):
            arrays[name] = np.ascontiguousarray(values)

    refuse(tmp_path / "m", change)
