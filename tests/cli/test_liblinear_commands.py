"""LIBLINEAR's programs as commands, compared with scikit-learn's LinearSVC and LinearSVR, and with LIBLINEAR itself."""

import re

import numpy as np
import pytest
from liblinear_counterpart import liblinear, official
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, load_svmlight_file, make_classification
from sklearn.svm import LinearSVC, LinearSVR
from text_files import words_of

import dimargin as dm


def write(path, n=200, classes=(-1, 1), seed=0):
    X, y = make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=len(classes), n_clusters_per_class=1, flip_y=0.1,
        random_state=seed,
    )  # fmt: skip
    X[np.abs(X) < 0.2] = 0
    dump_svmlight_file(X, np.array(classes)[y], str(path), zero_based=False)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("rows")
    write("more", seed=1)
    return tmp_path


def problem(path):
    X, y = load_svmlight_file(str(path))
    return X.toarray(), y


TRAINING = {
    "nothing": ((1, -1), []),
    "hinge": ((-1, 1), ["-s", "3", "-c", "0.3"]),
    "bias": ((0, 1), ["-s", "2", "-B", "2"]),
    "bias of zero": ((0, 1), ["-s", "2", "-B", "0"]),
    "weights": ((-1, 1), ["-w1", "5", "-w-1", "0.5", "-w1", "2"]),
    "three classes": ((4, 0, -2), ["-c", "10", "-B", "1"]),
    "crammer singer": ((4, 0, -2), ["-s", "4", "-c", "0.05", "-B", "2"]),
    "crammer singer, two classes": ((-1, 1), ["-s", "4", "-c", "0.05"]),
}


@pytest.mark.parametrize("name", TRAINING)
def test_the_machine_of_liblinear(dimargin, folder, name):
    """Weights equal those of LinearSVC, which is LIBLINEAR, at a small tolerance."""
    classes, flags = TRAINING[name]
    X, y = problem(write("rows", classes=classes))
    status, out, _ = dimargin("liblinear-train", "-e", "1e-8", *flags, "rows")
    gaps = [float(gap) for gap in re.findall(r"relative duality gap = (\S+)", out)]
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    at_once = given.get("-s") == "4"
    assert status == 0 and len(gaps) == (1 if len(classes) == 2 or at_once else 3) and max(gaps) <= 1e-9
    bias = float(given.get("-B", -1))
    svc = LinearSVC(
        C=float(given.get("-c", 1)), loss="hinge" if given.get("-s") == "3" else "squared_hinge", tol=1e-10,
        fit_intercept=bias > 0, intercept_scaling=max(bias, 1), max_iter=10**6, random_state=0,
        class_weight={1: 10, -1: 0.5} if "-w1" in given else None,
        multi_class="crammer_singer" if at_once else "ovr",
    ).fit(X, y)  # fmt: skip
    model = dm.from_liblinear("rows.model")
    assert model.bias == bias
    order = [int(label) for label in dict.fromkeys(y.tolist())]
    assert model.labels.tolist() == ([1, -1] if set(classes) == {-1, 1} else order)
    values = model.decision_values(X)
    if len(classes) == 2 and at_once:
        assert model.solver_type == "MCSVM_CS" and values.shape[1] == 2
        values = values[:, :1] - values[:, 1:]
    if len(classes) == 2:
        expected = svc.decision_function(X) * (1 if model.labels[0] == svc.classes_[1] else -1)
        assert_allclose(values[:, 0], expected, atol=1e-4)
    else:
        assert_allclose(values[:, np.argsort(model.labels)], svc.decision_function(X), atol=1e-4)
    assert dimargin("liblinear-predict", "rows", "rows.model", "labels")[0] == 0
    ordered = np.sort(np.column_stack([values, np.zeros(len(y))]) if values.shape[1] == 1 else values, axis=1)
    is_clear = ordered[:, -1] - ordered[:, -2] > 1e-3
    assert is_clear.mean() > 0.9 and np.array_equal(np.loadtxt("labels")[is_clear], svc.predict(X)[is_clear])


def test_liblinear_predicts_by_our_file(dimargin, folder):
    assert dimargin("liblinear-train", "-q", "-B", "1", "-R", "rows", "m")[:2] == (0, "")
    X, y = problem("more")
    labels, values = official("m", X)
    status, out, _ = dimargin("liblinear-predict", "more", "m", "labels")
    assert status == 0 and out == f"Accuracy = {100 * np.mean(labels == y):g}% ({np.sum(labels == y)}/{len(y)})\n"
    assert np.array_equal(np.loadtxt("labels"), labels)
    assert_allclose(dm.from_liblinear("m").decision_values(X), values, rtol=1e-12, atol=1e-12)


def test_an_unregularised_bias_is_an_intercept(dimargin, folder):
    X, y = problem("rows")
    assert dimargin("liblinear-train", "-q", "-s", "3", "-e", "1e-2", "-B", "1", "-R", "rows")[0] == 0
    machine = dm.LinearSVMClassifier(tol=1e-4, random_state=0).fit(X, y)
    model = dm.from_liblinear("rows.model")
    assert model.bias == 1 and model.solver_type == "L2R_L1LOSS_SVC_DUAL"
    assert_allclose(model.decision_values(X)[:, 0], machine.decision_function(X), rtol=1e-12, atol=1e-12)


def test_features_that_only_one_file_has(dimargin, folder):
    """Features without a weight count nothing, and those that rows lack are zero."""
    assert dimargin("liblinear-train", "-q", "rows", "m")[0] == 0
    weights = dm.from_liblinear("m").weights[0]
    (folder / "odd").write_text("1 1:2\n-1 3:-1 900:5\n")
    assert dimargin("liblinear-predict", "-q", "odd", "m", "labels")[:2] == (0, "")
    assert np.loadtxt("labels").tolist() == np.where(np.array([2 * weights[0], -weights[2]]) > 0, 1, -1).tolist()


def test_row_weights_and_cross_validation(dimargin, folder):
    X, y = problem("rows")
    (folder / "w").write_text("".join(f"{k % 3}\n" for k in range(len(y))))
    assert dimargin("liblinear-train", "-q", "-s", "3", "-e", "1e-6", "-W", "w", "rows")[0] == 0
    own = dm.LinearSVMClassifier(fit_intercept=False, tol=1e-8, random_state=0).fit(X, y, np.arange(len(y)) % 3)
    assert_allclose(dm.from_liblinear("rows.model").decision_values(X)[:, 0], own.decision_function(X), atol=1e-3)
    status, out, _ = dimargin("liblinear-train", "-q", "-v", "5", "rows")
    assert status == 0 and float(re.fullmatch(r"Cross Validation Accuracy = (\S+)%\n", out)[1]) > 70


def write_numbers(path, n=150, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[np.abs(X) < 0.2] = 0
    y = scale * (X @ [1.0, -2.0, 0.0, 3.0] + 0.7 + rng.normal(0, 0.5, n))
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return X, y


REGRESSIONS = {
    "squared": ["-s", "11", "-c", "0.1", "-p", "0.3"],
    "squared, dual": ["-s", "12", "-B", "2"],
    "absolute": ["-s", "13", "-p", "0.5", "-B", "1"],
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_regression_of_liblinear(dimargin, folder, name):
    """Weights equal those of LinearSVR, which is LIBLINEAR, at a small tolerance."""
    flags = REGRESSIONS[name]
    X, y = write_numbers("numbers")
    status, out, err = dimargin("liblinear-train", "-e", "1e-10" if "11" in flags else "1e-7", *flags, "numbers")
    assert status == 0 and float(re.search(r"relative duality gap = (\S+)", out)[1]) <= 1e-9, err
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    bias = float(given.get("-B", -1))
    svr = LinearSVR(
        C=float(given.get("-c", 1)), epsilon=float(given.get("-p", 0.1)), tol=1e-10, fit_intercept=bias > 0,
        loss="epsilon_insensitive" if given["-s"] == "13" else "squared_epsilon_insensitive", max_iter=10**6,
        intercept_scaling=max(bias, 1), random_state=0,
    ).fit(X, y)  # fmt: skip
    model = dm.from_liblinear("numbers.model")
    kinds = {"11": "L2R_L2LOSS_SVR", "12": "L2R_L2LOSS_SVR_DUAL", "13": "L2R_L1LOSS_SVR_DUAL"}
    assert model.bias == bias and model.solver_type == kinds[given["-s"]] and model.labels.tolist() == []
    assert_allclose(model.predict(X), svr.predict(X), atol=1e-3)
    assert model.score(X, y) == pytest.approx(svr.score(X, y), abs=1e-4)
    status, out, _ = dimargin("liblinear-predict", "numbers", "numbers.model", "labels")
    predicted = np.loadtxt("labels")
    assert status == 0
    assert_allclose(predicted, model.predict(X), rtol=1e-12, atol=1e-12)
    squares, correlation = np.mean((predicted - y) ** 2), np.corrcoef(predicted, y)[0, 1] ** 2
    assert out.splitlines() == [
        f"Mean squared error = {squares:g} (regression)",
        f"Squared correlation coefficient = {correlation:g} (regression)",
    ]


def test_liblinear_predicts_numbers_by_our_file_as_it_prints_them(dimargin, folder):
    X, y = write_numbers("numbers")
    assert dimargin("liblinear-train", "-q", "-s", "11", "-B", "1", "-R", "numbers", "m")[:2] == (0, "")
    values = official("m", X)[1][:, 0]
    status, out, _ = dimargin("liblinear-predict", "numbers", "m", "labels")
    assert_allclose(np.loadtxt("labels"), values, rtol=1e-12, atol=1e-12)
    _, squares, correlation = liblinear().predict(y, X, liblinear().load_model("m"), "-q")[1]
    assert status == 0 and out.splitlines() == [
        f"Mean squared error = {squares:g} (regression)",
        f"Squared correlation coefficient = {correlation:g} (regression)",
    ]


@pytest.mark.parametrize("scale", [1.0, 0.05])  # Small targets are below 1, the largest label of two classes.
def test_regressions_have_row_weights(dimargin, folder, scale):
    X, y = write_numbers("numbers", scale=scale)
    (folder / "w").write_text("".join(f"{k % 3}\n" for k in range(len(y))))
    assert dimargin("liblinear-train", "-q", "-s", "12", "-e", "1e-7", "-W", "w", "numbers")[0] == 0
    options = dict(loss="squared_epsilon_insensitive", fit_intercept=False, tol=1e-9)
    own = dm.LinearSVMRegressor(**options).fit(X, y, np.arange(len(y)) % 3)
    assert_allclose(dm.from_liblinear("numbers.model").predict(X), own.predict(X), atol=1e-4)


def test_regressions_are_cross_validated(dimargin, folder):
    write_numbers("numbers")
    status, out, _ = dimargin("liblinear-train", "-q", "-s", "11", "-v", "5", "numbers")
    form = r"Cross Validation Mean squared error = (\S+)\nCross Validation Squared correlation coefficient = (\S+)\n"
    error, correlation = map(float, re.fullmatch(form, out).groups())
    assert status == 0 and 0.2 < error < 1.5 and correlation > 0.9


REFUSED = {
    "logistic": (["-s", "0"], "LogisticRegression"),
    "l1": (["-s", "5"], "penalty='l1'"),
    "unknown": (["-s", "9"], "must be one of 1, 2, 3, 4, 11, 12, 13, got 9"),
    "free bias of all classes": (["-s", "4", "-B", "1", "-R"], "-R does not go with -s 4"),
    "free bias": (["-R"], "-R requires -B 1, got -B -1"),
    "infinite bias": (["-B", "inf"], "-B must be a finite number"),
    "search": (["-C"], "use dimargin tune"),
    "negative tube": (["-s", "11", "-p", "-1"], "epsilon must be"),
    "weights of numbers": (["-s", "12", "-w1", "2"], "-w multiplies the C of a class; use -W"),
    "one class": (["-s", "21"], "SGDOneClassSVM"),
    "tolerance": (["-e", "0"], "must be a finite number above 0"),
    "cost": (["-c", "-1"], "C must be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(dimargin, folder, name):
    flags, message = REFUSED[name]
    status, out, err = dimargin("liblinear-train", *flags, "rows", "m")
    assert status == 2 and not out and message in words_of(err) and not (folder / "m").exists()


def test_data_that_liblinear_cannot_number(dimargin, folder):
    (folder / "zero").write_text("1 0:1 1:2\n-1 0:2\n")
    status, _, err = dimargin("liblinear-train", "zero", "m")
    assert status == 1 and "feature 0" in words_of(err)
    (folder / "one").write_text("1 1:1\n1 1:2\n")
    status, _, err = dimargin("liblinear-train", "one", "m")
    assert status == 1 and "at least two classes" in words_of(err)


def test_a_trained_regression_is_exported(dimargin, folder):
    X, _ = write_numbers("numbers")
    flags = ("--task", "regression", "--scale", "none", "--quiet", "--model", "m")
    for loss, predict in (("linear_epsilon_insensitive", "liblinear-predict"), ("epsilon_insensitive", "svm-predict")):
        assert dimargin("train", "numbers", "--loss", loss, *flags)[0] == 0
        assert dimargin("export", "m", "text")[0] == 0 and dimargin(predict, "numbers", "text", "labels")[0] == 0
        assert_allclose(np.loadtxt("labels"), dm.load("m").predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", ["linear_hinge", "linear_odm"])
def test_a_trained_model_is_exported(dimargin, folder, loss):
    arguments = ["train", "rows", "--loss", loss, "--model", "m", "--quiet"]
    assert dimargin(*arguments)[0] == 0
    status, _, err = dimargin("export", "m", "text")
    assert status == 1 and "scales rows or encodes columns, which a LIBLINEAR model cannot" in words_of(err)
    assert dimargin(*arguments, "--scale", "none")[0] == 0 and dimargin("export", "m", "text")[0] == 0
    X, _ = problem("more")
    assert dimargin("liblinear-predict", "more", "text", "labels")[0] == 0
    assert np.array_equal(np.loadtxt("labels"), dm.load("m").predict(X))
    (folder / "zero").write_text("1 0:1 1:2\n-1 0:2\n" * 5)
    assert dimargin("train", "zero", "--loss", loss, "--model", "m", "--quiet", "--scale", "none")[0] == 0
    status, _, err = dimargin("export", "m", "text")
    assert status == 1 and "counts features from 0, and LIBLINEAR from 1" in words_of(err)
