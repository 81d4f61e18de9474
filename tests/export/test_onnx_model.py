"""ONNX models, which onnxruntime runs, against the predictions of the estimators."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from random_machines import fitted, machines, new_rows, regressors, rows_and_labels, sklearn_classifiers, tied_votes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import dimargin as dm
from dimargin import svm
from dimargin.estimators.preprocessing import CategoryEncoder, FourierFeatures, SparseScaler

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'dimargin[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(model, inputs):
    """Return the outputs of onnxruntime by their names; inputs are an array for X, or columns by name."""
    if not isinstance(inputs, dict) and model.graph.input[0].name != "X":
        inputs = {f"x{k}": inputs[:, [k]] for k in range(inputs.shape[1])}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = inputs if isinstance(inputs, dict) else {"X": inputs}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def assert_alike(found, estimator, X, tolerance=1e-9):
    """Check decision values relative to the largest one, and labels wherever these differ by more than rounding."""
    values = estimator.decision_function(X)
    assert found["decision_values"].shape == values.shape
    error = tolerance * np.abs(values).max()
    assert np.abs(found["decision_values"] - values).max() <= error
    pairs = np.column_stack([np.zeros(len(values)), values]) if values.ndim == 1 else values
    second, first = np.sort(pairs, axis=1)[:, -2:].T
    is_clear = first - second > 2 * error
    assert (found["label"][is_clear] == estimator.predict(X)[is_clear]).all() and is_clear.any()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(machines())
def test_machines_of_all_kinds_decide_alike(drawn):
    machine, rows = drawn
    found = run(dm.to_onnx(machine), rows)
    values = machine.decision_function(rows)
    error = 1e-7 * np.abs(values).max()
    assert np.abs(found["decision_values"] - values).max() <= error
    pairs = np.column_stack([np.zeros(len(values)), values]) if values.ndim == 1 else values
    second, first = np.sort(pairs, axis=1)[:, -2:].T
    is_clear = first - second > 2 * error
    assert (found["label"][is_clear] == machine.predict(rows)[is_clear]).all()


@pytest.mark.parametrize("name", regressors())
def test_regressors_predict_alike(name):
    X, _ = rows_and_labels(3, 2, 4)
    y = 1000.0 + 30 * np.sin(X[:, 0]) + X[:, 1]
    model, rows = fitted(regressors()[name], X, y), new_rows(X, 4)
    found, expected = run(dm.to_onnx(model), rows), model.predict(rows)
    assert list(found) == ["prediction"] and found["prediction"].shape == expected.shape
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", sklearn_classifiers())
@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes_with_the_names_of_scikit_learn_decide_alike(name, n_classes):
    X, y = rows_and_labels(3, n_classes, 4)
    model, rows = fitted(sklearn_classifiers()[name], X, y), new_rows(X, 4)
    assert_alike(run(dm.to_onnx(model), rows), model, rows)


@pytest.mark.parametrize("break_ties", [False, True])
def test_tied_votes_of_svc_are_broken_as_its_parameter_says(break_ties):
    X, y, rows = tied_votes()
    model = svm.SVC(kernel="poly", degree=2, break_ties=break_ties).fit(X, y)
    labels = model.predict(rows)
    assert run(dm.to_onnx(model), rows)["label"].tolist() == labels.tolist()
    assert ((model.decision_function(rows).argmax(axis=1) == labels).all()) == break_ties


def test_changed_coefficients_are_exported():
    X, y = rows_and_labels(3, 2)
    model = svm.SVC().fit(X, y)
    expected = 0.5 * (model.decision_function(X) - model.intercept_) + model.intercept_
    model._dual_coef_ = 0.5 * model._dual_coef_
    np.testing.assert_allclose(run(dm.to_onnx(model), X)["decision_values"], expected, atol=1e-12)


def test_float32_is_the_precision_of_input_and_output():
    X, y = rows_and_labels(0, 3)
    machine, rows = dm.SVMClassifier().fit(X, y), new_rows(X, 1).astype(np.float32)
    found = run(dm.to_onnx(machine, numbers="float32"), rows)
    assert found["decision_values"].dtype == np.float32
    assert_alike(found, machine, rows, 1e-4)


STEPS = {
    "standard": lambda: [StandardScaler()],
    "standard without mean": lambda: [StandardScaler(with_mean=False)],
    "standard without scale": lambda: [StandardScaler(with_std=False)],
    "minmax": lambda: [MinMaxScaler((-1, 3))],
    "several": lambda: [StandardScaler(), MinMaxScaler((-1, 3)), MaxAbsScaler()],
    "robust": lambda: [RobustScaler()],
    "robust without centre": lambda: [RobustScaler(with_centering=False)],
    "sparse": lambda: [SparseScaler("standard")],
    "fourier": lambda: [StandardScaler(), FourierFeatures(0.5, 20)],
    "nested": lambda: [make_pipeline(StandardScaler(), FunctionTransformer()), "passthrough"],
    "columns": lambda: [
        ColumnTransformer(
            [("a", MinMaxScaler(), [0, 2]), ("b", "drop", [1]), ("c", MaxAbsScaler(), slice(2, 4)), ("d", PCA(), [])],
            remainder=StandardScaler(),
        ),
        MaxAbsScaler(),
    ],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_steps_before_the_machine(steps):
    X, y = rows_and_labels(3, 3, 4)
    model = fitted(make_pipeline(*steps(), dm.SVMClassifier(random_state=0)), X, y)
    rows = new_rows(X, 4)
    assert_alike(run(dm.to_onnx(model), rows), model, rows)


def test_missing_values_are_imputed():
    X, y = rows_and_labels(3, 2, 4)
    X[::3, 1] = np.nan
    model = fitted(make_pipeline(SimpleImputer(strategy="median"), dm.ODMClassifier()), X, y)
    assert_alike(run(dm.to_onnx(model), X), model, X)


@pytest.mark.parametrize("kind", [float, str])
def test_encoders_of_numbers_and_of_texts(kind):
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    codes = np.column_stack([rng.integers(0, 5, 40), rng.integers(0, 2, 40)])
    X, new = codes.astype(kind), np.array([[0, 1], [4, 0], [7, 1], [1, 9], [2, 2]]).astype(kind)
    X, new = (X, new) if kind is float else (X.astype(object), new.astype(object))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, dm.SVMClassifier()).fit(X, y)
    assert_alike(run(dm.to_onnx(model), new), model, new)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "age": rng.uniform(20, 60, 60), "job": rng.choice(["nurse", "smith"], 60),
        "sums of": rng.exponential(size=60), "scores": rng.exponential(size=60),
        "town": rng.choice(["", "Rome", "Oslo"], 60),
    })  # fmt: skip
    table.loc[::7, "age"] = np.nan
    return table, np.where((table["job"] == "nurse") ^ (table["scores"] > 1), "yes", "no")


def test_every_column_of_a_table_with_texts_is_an_input(people):
    table, y = people
    columns = ColumnTransformer([
        ("age", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ("words", CategoryEncoder(handle_unknown="ignore"), ["town", "job"]),
    ], remainder=RobustScaler())  # fmt: skip
    model = make_pipeline(columns, MaxAbsScaler(), dm.SVMClassifier()).fit(table, y)
    exported = dm.to_onnx(model)
    assert [given.name for given in exported.graph.input] == ["age", "job", "sums of", "scores", "town"]
    inputs = {name: table[[name]].to_numpy() for name in table.columns}
    assert_alike(run(exported, inputs), model, table)


# ---- probabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibrated_probabilities(method, n_classes):
    pytest.importorskip("sklearn", "1.8", reason="temperature scaling needs scikit-learn 1.8")
    X, y = rows_and_labels(5, n_classes, n=120)
    inside = make_pipeline(StandardScaler(), dm.SVMClassifier(random_state=0))
    calibrated = CalibratedClassifierCV(inside, method=method, cv=3, ensemble=False)
    model = make_pipeline(MinMaxScaler(), calibrated).fit(X, y)
    rows = new_rows(X, 6)
    found, expected = run(dm.to_onnx(model), rows), model.predict_proba(rows)
    assert np.abs(found["probabilities"] - expected).max() < 1e-9
    second, first = np.sort(expected, axis=1)[:, -2:].T
    is_clear = first - second > 1e-8
    assert (found["label"][is_clear] == model.predict(rows)[is_clear]).all() and is_clear.mean() > 0.5
    machine = model[-1].calibrated_classifiers_[0].estimator
    values = machine.decision_function(model[0].transform(rows))
    assert np.abs(found["decision_values"] - values).max() <= 1e-9 * np.abs(values).max()


def test_temperature_is_one_number_for_machines_of_text_labels():
    X, y = rows_and_labels(5, 3, n=120)
    names = np.array(["a", "b", "c"])[y]
    model = CalibratedClassifierCV(dm.SVMClassifier(), method="temperature", cv=3, ensemble=False).fit(X, names)
    found = run(dm.to_onnx(model), X)
    assert np.abs(found["probabilities"] - model.predict_proba(X)).max() < 1e-9
    assert found["label"].tolist() == model.predict(X).tolist()


def test_a_frozen_machine_is_calibrated():
    X, y = rows_and_labels(5, 3, n=120)
    machine = dm.SVMClassifier(multi_class="one_vs_one", pair_scores="votes").fit(X, y)
    model = CalibratedClassifierCV(FrozenEstimator(machine)).fit(X, y)
    found = run(dm.to_onnx(model), X)
    assert np.abs(found["probabilities"] - model.predict_proba(X)).max() < 1e-9
    assert np.abs(found["decision_values"] - machine.decision_function(X)).max() < 1e-9


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported_is_named():
    X, y = rows_and_labels(0, 3)
    refused = {
        "cannot export the step 'polynomialfeatures', PolynomialFeatures": make_pipeline(
            PolynomialFeatures(), dm.SVMClassifier()
        ),
        "cannot export SVC with kernel='sigmoid', which scikit-learn's own class computes": svm.SVC(
            kernel="sigmoid", allow_uncertified=True
        ),
        "cannot export SVC with decision_function_shape='ovo'": svm.SVC(decision_function_shape="ovo"),
        "cannot export SVR with kernel=<function": svm.SVR(kernel=lambda a, b: a @ b.T),
        "cannot export targets transformed by QuantileTransformer": TransformedTargetRegressor(
            dm.SVMRegressor(), transformer=QuantileTransformer(n_quantiles=5)
        ),
        "cannot export MLPClassifier": MLPClassifier((2,), max_iter=1, solver="lbfgs"),
        "a kernel by its name": dm.SVMClassifier(kernel=lambda a, b: a @ b.T),
        "fit it with stop_level=0": dm.SVMClassifier(strategy="dc", n_levels=1, stop_level=1),
        "with ensemble=False": CalibratedClassifierCV(dm.SVMClassifier(), cv=2, ensemble=True),
        "cannot export the step 'pca', PCA(": make_pipeline(PCA(1), dm.SVMClassifier()),
        "cannot export the step 'simpleimputer'": make_pipeline(SimpleImputer(add_indicator=True), dm.SVMClassifier()),
    }
    for message, model in refused.items():
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            dm.to_onnx(fitted(model, X, y))
    with pytest.raises(ValueError, match="numbers must be 'float64' or 'float32', got 'int8'"):
        dm.to_onnx(dm.SVMClassifier().fit(X, y), numbers="int8")
    machine = dm.SVMClassifier().fit(X, y)
    machine.classes_ = np.array([0.5, 1.25])
    with pytest.raises(ValueError, match="cannot export the labels"):
        dm.to_onnx(machine)
    model = make_pipeline(OneHotEncoder(), dm.SVMClassifier()).fit([[1.0], [np.nan]], [0, 1])
    with pytest.raises(ValueError, match="cannot export the step 'onehotencoder': a column must be of texts or"):
        dm.to_onnx(model)


@pytest.mark.parametrize("labels", [[1.0, 2.0], [False, True], ["no", "yes"], [-1, 1]], ids=str)
def test_labels_keep_their_values(labels):
    X, y = rows_and_labels(0, 2)
    machine = dm.SVMClassifier().fit(X, np.array(labels)[y])
    assert run(dm.to_onnx(machine), X)["label"].tolist() == machine.predict(X).tolist()


def test_a_missing_text_is_an_empty_one():
    X = np.array([["a"], [None], ["b"], ["a"]], dtype=object)
    model = make_pipeline(OneHotEncoder(sparse_output=False), dm.SVMClassifier()).fit(X, [0, 1, 0, 1])
    found = run(dm.to_onnx(model), np.where(X == None, "", X))  # noqa: E711
    assert_alike(found, model, X)


def test_ties_of_votes_are_for_the_first_class():
    X, y = rows_and_labels(0, 4)
    machine = dm.SVMClassifier(multi_class="one_vs_one", pair_scores="votes").fit(X, y)
    machine.dual_coef_[:], machine.intercept_[:] = 0.0, 0.0
    found = run(dm.to_onnx(machine), X)
    assert (found["decision_values"] == machine.decision_function(X)).all()
    assert found["decision_values"][0].tolist() == [3.0, 2.0, 1.0, 0.0]
