"""Pipelines of tables in model files: what is loaded predicts as what was saved, whatever reads it."""

import copy

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from tampering import refuse, tampered

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures

ROWS = 80
TAKES_ARROW = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 7)


def texts(values):
    """Return texts as objects: a missing one is None then, as in tables of Arrow, where pandas 3 would have NaN.

    scikit-learn's encoders take None and NaN for different categories.
    """
    return pd.Series(values, dtype=object)


def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, ROWS),
            "size": rng.normal(0, 1, ROWS),
            "job": texts(rng.choice(["nurse", "smith", None], ROWS)),
            "floor": rng.integers(0, 3, ROWS),
            "since": pd.date_range("2020-01-01", periods=ROWS).strftime("%Y-%m-%d"),
            "rest": rng.normal(size=ROWS),
        }
    )
    y = (frame.age + 10 * (frame.job == "nurse") > 42).to_numpy()
    frame.loc[::7, "age"] = np.nan
    return frame, y


def twice(X):
    return 2 * X


def transformer(encoder=None, remainder="drop", **imputer):
    parts = [
        ("numbers", SimpleImputer(**imputer), ["age", "size"]),
        ("job", encoder or OneHotEncoder(handle_unknown="ignore"), ["job", "floor"]),
        ("since", CalendarFeatures(), ["since"]),
    ]
    return ColumnTransformer(parts, remainder=remainder)


PIPELINES = {
    "mean": [transformer()],
    "passthrough": [transformer(remainder="passthrough"), MinMaxScaler()],
    "indicator": [transformer(strategy="median", add_indicator=True), StandardScaler(with_mean=False)],
    "most frequent": [transformer(strategy="most_frequent", keep_empty_features=True)],
    "constant": [transformer(strategy="constant", fill_value=3.0)],
    "first dropped": [transformer(OneHotEncoder(drop="first", sparse_output=False))],
    "binary": [transformer(OneHotEncoder(drop="if_binary"))],
    "quantiles": [transformer(), QuantileTransformer(n_quantiles=20, output_distribution="normal")],
    "pipelines inside": [
        ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(), make_pipeline(MinMaxScaler())), ["age", "size"]),
                ("since", make_pipeline(CalendarFeatures(), StandardScaler()), ["since"]),
                ("job", make_pipeline(OneHotEncoder(handle_unknown="ignore"), MaxAbsScaler()), ["job", "floor"]),
                ("again", make_pipeline(SimpleImputer(), OneHotEncoder(handle_unknown="ignore")), ["floor"]),
            ]
        )
    ],
    "one column twice": [
        ColumnTransformer([("a", OneHotEncoder(), ["since"]), ("b", CalendarFeatures(), ["since"])]),
    ],
    "functions": [
        ColumnTransformer(
            [
                ("a", FunctionTransformer(np.arctan, feature_names_out="one-to-one"), ["size", "floor"]),
                ("b", RobustScaler(), ["rest"]),
                ("c", VarianceThreshold(1.0), ["rest", "size"]),
                ("d", "drop", ["age"]),
            ]
        ),
        StandardScaler(),
    ],
    "scaled inside": [ColumnTransformer([("a", MinMaxScaler(), ["size"]), ("b", "passthrough", ["rest", "floor"])])],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_loaded_predicts_the_same(name, tmp_path):
    frame, y = people()
    steps = PIPELINES[name]
    if name == "quantiles":
        steps = [transformer(OneHotEncoder(handle_unknown="ignore", sparse_output=False)), *steps[1:]]
    model = make_pipeline(*steps, dm.ODMClassifier(lam=100.0)).fit(frame, y)
    dm.save(model, tmp_path / "a")
    loaded = dm.load(tmp_path / "a")
    other = frame.assign(job=texts(np.resize(["nurse", "pilot", None], ROWS)), age=np.nan)  # training had no pilot
    tables = [frame] if name in ("first dropped", "binary") else [frame, other]
    for table in tables:
        expected = model.decision_function(table)
        assert np.array_equal(loaded.decision_function(table), expected)
        if TAKES_ARROW:
            assert np.array_equal(loaded.decision_function(pa.Table.from_pandas(table)), expected)
    assert loaded[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()
    dm.save(loaded, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (transformer(OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist")), "groups rare categories"),
        (transformer(missing_values=-1.0), "missing_values=-1.0"),
        (
            ColumnTransformer([("a", FunctionTransformer(twice), ["size"])]),
            "func cannot be stored in a model file",
        ),
        (ColumnTransformer([("a", "passthrough", slice(1, 2))]), "expected a list of column names"),
        (ColumnTransformer([("a", "passthrough", ["size"])], remainder=MinMaxScaler()), "remainder"),
        (ColumnTransformer([("a", SimpleImputer(strategy="most_frequent"), ["since"])]), "not finite numbers"),
    ],
)
def test_what_cannot_be_saved_is_named(step, message, tmp_path):
    frame, y = people()
    frame, y = frame.assign(age=frame.age.fillna(0)), y
    if "remainder" in message:
        frame = frame[["size", "rest"]]
    model = make_pipeline(step, OneHotEncoder(handle_unknown="ignore"), dm.ODMClassifier(lam=1.0)).fit(frame, y)
    model.steps.pop(1)  # which only made numbers of whatever came out
    with pytest.raises(TypeError, match=message):
        dm.save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "steps",
    [
        [ColumnTransformer([("a", OneHotEncoder(), ["age"])])],
        [
            ColumnTransformer([("a", "passthrough", ["floor"])], verbose_feature_names_out=False).set_output(
                transform="pandas"
            ),
            ColumnTransformer([("b", "passthrough", ["floor"])]),
        ],
        [ColumnTransformer([("a", make_pipeline(ColumnTransformer([("b", "passthrough", ["floor"])])), ["floor"])])],
    ],
)
def test_nothing_is_saved_that_cannot_be_loaded(steps, tmp_path):
    frame, y = people()
    frame = frame if isinstance(steps[0], ColumnTransformer) else frame[["age", "floor"]]
    model = make_pipeline(*steps, dm.ODMClassifier(lam=1.0)).fit(frame, y)
    with pytest.raises(TypeError, match="the model cannot be saved"):
        dm.save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("step", [OneHotEncoder(), CalendarFeatures(), SimpleImputer(add_indicator=True)])
def test_a_step_that_makes_more_columns_comes_back(step, tmp_path):
    frame, y = people()
    column = frame[{OneHotEncoder: ["floor"], CalendarFeatures: ["since"], SimpleImputer: ["age"]}[type(step)]]
    model = make_pipeline(step, dm.ODMClassifier(lam=1.0)).fit(column, y)
    dm.save(model, tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").decision_function(column), model.decision_function(column))


def test_a_transformer_of_arrays_has_no_names(tmp_path):
    step = ColumnTransformer([("a", "passthrough", [0, 1])])
    model = make_pipeline(step, dm.ODMClassifier(lam=1.0)).fit(
        np.random.default_rng(0).normal(size=(20, 2)), [0, 1] * 10
    )
    with pytest.raises(TypeError, match="fitted to a data frame"):
        dm.save(model, tmp_path / "m")


def entry(header, k):
    """Encoded name, transformer and columns of entry k of the ColumnTransformer of a header."""
    return header["steps"][0]["parameters"]["transformers"]["list"][k]["tuple"]


def inner(header, k):
    """Encoded transformer of entry k."""
    return entry(header, k)[1]["step"]


LIES = {
    "other columns": lambda h, a: entry(h, 0).__setitem__(2, {"list": ["nobody", "size"]}),
    "no categories": lambda h, a: inner(h, 1)["attributes"]["categories_"].__setitem__("list", []),
    "double categories": lambda h, a: inner(h, 1)["attributes"]["categories_"]["list"][0].__setitem__(
        "labels", ["nurse", "nurse", None]
    ),
    "infinite statistics": lambda h, a: next(v for k, v in a.items() if "statistics_" in k).__setitem__(0, np.inf),
    "missing beyond the columns": lambda h, a: a.update({k: np.array([5]) for k in a if "had_missing" in k}),
    "no format": lambda h, a: inner(h, 2)["parameters"].__setitem__("format", "%d%d"),
    "machine as a transformer": lambda h, a: h["steps"][0]["parameters"]["transformers"]["list"][0][
        "tuple"
    ].__setitem__(1, {"step": h["steps"][-1]}),
    "other names inside": lambda h, a: inner(h, 2)["attributes"]["feature_names_in_"].__setitem__("labels", ["job"]),
    "parameter nobody knows": lambda h, a: inner(h, 0)["parameters"].__setitem__("copy", False),
    "not the first step": lambda h, a: h["steps"].insert(1, h["steps"][0]),
    "inside of another one": lambda h, a: entry(h, 0).__setitem__(1, {"step": copy.deepcopy(h["steps"][0])}),
    "step of another width": lambda h, a: inner(h, 1)["attributes"]["categories_"]["list"].pop(),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_found(lie, tmp_path):
    frame, y = people()
    path = tmp_path / "m"
    dm.save(make_pipeline(transformer(), dm.ODMClassifier(lam=1.0)).fit(frame, y), path)
    tampered(path, lambda header, arrays: None)
    dm.load(path)
    refuse(path, LIES[lie])


PIPELINE_LIES = {
    "no steps": lambda steps, machine: steps.clear(),
    "a machine": lambda steps, machine: steps[1]["tuple"].__setitem__(1, {"step": machine}),
    "a step of another width": lambda steps, machine: steps.insert(1, steps[0]),
    "a text": lambda steps, machine: steps[1]["tuple"].__setitem__(1, "drop"),
}


@pytest.mark.parametrize("lie", PIPELINE_LIES)
def test_lies_about_a_pipeline_of_columns_are_found(lie, tmp_path):
    frame, y = people()
    path, scaled = tmp_path / "m", make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler())
    numbers = frame[["age", "size"]]
    dm.save(make_pipeline(scaled, dm.ODMClassifier(lam=1.0)).fit(numbers, y), path)
    assert dm.load(path).predict(numbers).shape == (ROWS,)
    refuse(path, lambda h, a: PIPELINE_LIES[lie](h["steps"][0]["parameters"]["steps"]["list"], h["steps"][-1]))
