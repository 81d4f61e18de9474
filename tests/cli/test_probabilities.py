"""Probabilities on the command line: calibrated by train, written by predict, scored by evaluate and report."""

import csv as csv_module
import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
import sklearn
from report_page import Page
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from text_files import people, words_of, write_csv, write_moons

import dimargin as dm
from dimargin.cli import probabilities as module
from dimargin.io.data import read_data

HAS_TEMPERATURE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
METHODS = ["sigmoid", "isotonic", *(["temperature"] if HAS_TEMPERATURE else [])]


@pytest.fixture
def csv(tmp_path):
    return write_moons(tmp_path / "train.csv", 300)


def trained(dimargin, data, model, *flags):
    status, out, error = dimargin("train", data, "-m", model, "--json", "--random-state", 0, *flags)
    assert status == 0, error
    return json.loads(out), error


def inside(path):
    """Machine of a calibrated model."""
    model = dm.load(path)
    return (model[-1] if hasattr(model, "steps") else model).calibrated_classifiers_[0].estimator


def written(dimargin, model, data):
    """Header, labels and probabilities that predict writes."""
    status, out, error = dimargin("predict", model, data, "--probabilities", "-q")
    assert status == 0, error
    header, *lines = csv_module.reader(io.StringIO(out))
    return header, [line[0] for line in lines], np.array([line[1:] for line in lines], dtype=float)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_what_scikit_learn_calibrates(method, dimargin, csv, tmp_path):
    flags = ("--loss", "hinge", "--probabilities", "--calibration", method, "--random-state", 3)
    facts, said = trained(dimargin, csv, tmp_path / "m", *flags)
    assert f"calibrating probabilities ({method}) by 5-fold cross-validation" in said
    assert facts["calibration_seconds"] > 0
    rows = read_data(csv)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    machine = CalibratedClassifierCV(dm.SVMClassifier(random_state=3), method=method, cv=folds, ensemble=False)
    expected = make_pipeline(MinMaxScaler(), machine).fit(rows.X, rows.y)
    header, labels, probabilities = written(dimargin, tmp_path / "m", csv)
    assert header == ["label", "ham", "spam"]
    np.testing.assert_array_equal(probabilities, expected.predict_proba(rows.X))
    assert labels == expected.predict(rows.X).tolist()
    assert dimargin("predict", tmp_path / "m", csv, "-q")[1].split() == labels
    info = json.loads(dimargin("info", tmp_path / "m", "--json")[1])
    assert info["machine"] == "SVMClassifier" and info["probabilities"] == method
    assert info["certificate"] == facts["certificate"] == "global" and info["scaling"] == "MinMaxScaler"
    assert info["relative_duality_gap"] == facts["relative_duality_gap"] <= 1e-3


def test_the_default_is_sigmoid_and_the_better_of_two_losses(dimargin, csv, tmp_path):
    _, said = trained(dimargin, csv, tmp_path / "m", "--probabilities")
    chosen = "hinge" if "hinge with C=1 is better" in said else "squared_hinge"
    assert f"cross-validated hinge with C=1 and squared_hinge with C=10: {chosen} with" in said
    assert dm.load(tmp_path / "m")[-1].method == "sigmoid" and inside(tmp_path / "m").loss == chosen


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_have_a_column_for_each_class(suffix, dimargin, tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(['a "new" one', "two, or", "or three"])
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=names[y])
    frame.to_parquet(tmp_path / "iris.parquet")
    trained(dimargin, tmp_path / "iris.parquet", tmp_path / "m", "--label", "label", "--probabilities")
    output = tmp_path / f"found.{suffix}"
    assert dimargin("predict", tmp_path / "m", tmp_path / "iris.parquet", "--probabilities", "-o", output)[0] == 0
    found = pyarrow.csv.read_csv(output).to_pandas() if suffix == "csv" else pd.read_parquet(output)
    model = dm.load(tmp_path / "m")
    assert inside(tmp_path / "m").feature_names_in_.tolist() == list("abcd")
    assert found.columns.tolist() == ["label", *model.classes_] and len(found) == 150
    np.testing.assert_array_equal(found[model.classes_], model.predict_proba(X))
    assert found["label"].tolist() == model.predict(X).tolist()


def test_numbers_stay_numbers_in_parquet(dimargin, tmp_path):
    X, y = load_iris(return_X_y=True)
    write_csv(tmp_path / "iris.csv", X, y + 7)
    trained(dimargin, tmp_path / "iris.csv", tmp_path / "m", "--probabilities", "--scale", "none")
    dimargin("predict", tmp_path / "m", tmp_path / "iris.csv", "--probabilities", "-o", tmp_path / "found.parquet")
    found = pd.read_parquet(tmp_path / "found.parquet")
    assert found.columns.tolist() == ["label", "7", "8", "9"] and set(found["label"]) == {7, 8, 9}


def test_scores_are_those_of_scikit_learn(dimargin, csv, tmp_path):
    test = write_moons(tmp_path / "test.csv", 200, seed=1)
    facts, _ = trained(dimargin, csv, tmp_path / "m", "--probabilities", "--validate", test)
    scores = json.loads(dimargin("evaluate", tmp_path / "m", test, "--json")[1])
    rows = read_data(test)
    spam = dm.load(tmp_path / "m").predict_proba(rows.X)[:, 1]
    assert scores["log_loss"] == facts["validation"]["log_loss"] == pytest.approx(log_loss(rows.y == "spam", spam))
    assert scores["brier_score"] == pytest.approx(brier_score_loss(rows.y == "spam", spam))
    assert 0 < scores["calibration_error"] < 0.1
    assert scores["accuracy"] == np.mean((spam > 0.5) == (rows.y == "spam"))
    table = dimargin("evaluate", tmp_path / "m", test, "--plot", tmp_path / "margins.png")[1]
    assert "log loss" in table and "calibration error" in table and (tmp_path / "margins.png").stat().st_size
    assert dimargin("report", tmp_path / "m", test, "-o", tmp_path / "page.html", "-q")[0] == 0
    texts = Page(tmp_path / "page.html").texts
    assert [texts[name] for name in ("log-loss", "brier", "calibration-error")] == [
        f"{scores[name]:.3f}" for name in ("log_loss", "brier_score", "calibration_error")
    ]
    assert "Observed frequency" in texts["reliability"]


def test_decision_values_are_those_of_the_machine(dimargin, csv, tmp_path):
    trained(dimargin, csv, tmp_path / "m", "--probabilities", "--scale", "none")
    lines = dimargin("predict", tmp_path / "m", csv, "--decision-values", "-q")[1].splitlines()
    values = np.array([line.split("\t")[1] for line in lines], dtype=float)
    np.testing.assert_allclose(values, inside(tmp_path / "m").decision_function(read_data(csv).X), rtol=1e-6)


@pytest.mark.parametrize(
    "flags",
    [
        ("--weight", "size"),
        ("--loss", "linear_odm"),
        ("--scale", "standard", "--kernel", "poly"),
        ("--strategy", "diodm", "--n-levels", 1, "--loss", "odm"),
    ],
)
def test_columns_of_tables_weights_and_other_machines(flags, dimargin, tmp_path):
    people(200, 0).to_csv(tmp_path / "people.csv", index=False)
    shown = ("--categories", "--missing", "median", "--dates", "iso", "--drop", "id", "--probabilities", *flags)
    trained(dimargin, tmp_path / "people.csv", tmp_path / "m", *shown)
    people(100, 1).to_csv(tmp_path / "more.csv", index=False)
    header, labels, probabilities = written(dimargin, tmp_path / "m", tmp_path / "more.csv")
    assert header == ["label", "ill", "well"] and np.abs(probabilities.sum(axis=1) - 1).max() < 1e-12
    assert labels == np.array(header[1:])[probabilities.argmax(axis=1)].tolist()
    scores = json.loads(dimargin("evaluate", tmp_path / "m", tmp_path / "more.csv", "--json")[1])
    assert scores["accuracy"] > 0.7 and scores["log_loss"] < 0.6


def test_weights_of_rows_change_probabilities_and_weights_of_classes_do_not(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=600), "w": 1.0})
    frame["label"] = np.where(frame.a + rng.normal(size=600) > 1.5, "rare", "usual")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.assign(w=np.where(frame.label == "rare", 5.0, 1.0)).to_csv(tmp_path / "w.csv", index=False)
    rare = (frame.label == "rare").to_numpy()
    for name, weights, flags in (
        ("t", 1, ()),
        ("w", np.where(rare, 5, 1), ()),
        ("t", 1, ("--class-weight", '{"rare": 5}')),
    ):
        shown = ("--probabilities", "--weight", "w", "--kernel", "linear", *flags)
        _, said = trained(dimargin, tmp_path / f"{name}.csv", tmp_path / "m", *shown)
        assert ("calibrated on the rows without --class-weight" in words_of(said)) == bool(flags)
        _, labels, probabilities = written(dimargin, tmp_path / "m", tmp_path / f"{name}.csv")
        weights = weights * np.ones(600)
        found = np.average(probabilities[:, 0], weights=weights)
        assert found == pytest.approx(np.average(rare, weights=weights), abs=0.03)
        scores = json.loads(dimargin("evaluate", tmp_path / "m", tmp_path / f"{name}.csv", "--json")[1])
        assert scores["accuracy"] == np.mean(np.array(labels) == frame.label)
        by_machine = inside(tmp_path / "m").predict(dm.load(tmp_path / "m")[0].transform(frame[["a"]].to_numpy()))
        assert not flags or (by_machine == "rare").sum() > 2 * labels.count("rare")


def test_probabilities_are_not_exported(dimargin, csv, tmp_path):
    trained(dimargin, csv, tmp_path / "m", "--probabilities", "--scale", "none")
    status, _, error = dimargin("export", tmp_path / "m", tmp_path / "libsvm.model")
    assert status == 1 and "train it without --probabilities" in words_of(error)
    assert not (tmp_path / "libsvm.model").exists()


# ---- resume, interruption, limits ------------------------------------------------------------------------------------


def test_resume_adds_probabilities_and_keeps_them(dimargin, csv, tmp_path):
    model = tmp_path / "m"
    trained(dimargin, csv, model, "--loss", "hinge")
    status, out, error = dimargin("predict", model, csv, "--probabilities")
    advice = f"m has no probabilities; add them by dimargin train TRAINING_DATA --resume {model} --model {model} --prob"
    assert (status, out) == (1, "") and advice in words_of(error).replace("- ", "-")
    trained(dimargin, csv, model, "--resume", model, "--probabilities", "--calibration", "isotonic")
    assert dm.load(model)[-1].method == "isotonic"
    before = written(dimargin, model, csv)[2]
    trained(dimargin, csv, model, "--resume", model, "--C", 100)
    assert dm.load(model)[-1].method == "isotonic" and inside(model).C == 100
    assert np.abs(written(dimargin, model, csv)[2] - before).max() > 0.01
    trained(dimargin, csv, model, "--resume", model, "--calibration", "sigmoid")
    assert dm.load(model)[-1].method == "sigmoid"


def test_certify_keeps_the_probabilities(dimargin, csv, tmp_path):
    model = tmp_path / "m"
    flags = ("--loss", "odm", "--strategy", "diodm", "--n-levels", 1, "--stop-level", 1, "--probabilities")
    assert trained(dimargin, csv, model, *flags)[0]["certificate"] == "partitioned"
    before = written(dimargin, model, csv)[2]
    assert json.loads(dimargin("info", model, "--certify", csv, "--json")[1])["certificate"] == "global"
    assert inside(model).certificate_ == "global"
    np.testing.assert_array_equal(written(dimargin, model, csv)[2], before)


def test_a_time_limit_gives_probabilities_of_a_machine_that_had_half_of_it(dimargin, tmp_path, monkeypatch):
    limits = []
    original = module.CalibrationRows.decision_values

    def decision_values(self, machine, max_time, *others):
        limits.append(max_time)
        return original(self, machine, max_time, *others)

    monkeypatch.setattr(module.CalibrationRows, "decision_values", decision_values)
    csv = write_moons(tmp_path / "many.csv", 4000)
    flags = ("--max-time", 0.4, "--tol", 1e-9, "--loss", "odm", "--lam", 1e8, "--probabilities")
    facts, said = trained(dimargin, csv, tmp_path / "m", *flags)
    assert facts["status"] == "max_time"
    assert "warning: calibration: 5 of 5 fits stopped before the tolerance was reached" in said
    assert 0 < limits[0] < 0.25 and inside(tmp_path / "m").max_time == 0.4
    assert written(dimargin, tmp_path / "m", csv)[2].shape == (4000, 2)


@pytest.mark.slow
def test_ctrl_c_in_the_calibration_saves_the_machine(tmp_path):
    rng = np.random.default_rng(0)
    dump_svmlight_file(rng.random((4000, 10)), rng.integers(0, 2, 4000), str(tmp_path / "noise"), zero_based=False)
    command = [sys.executable, "-m", "dimargin", "train", tmp_path / "noise", "-m", tmp_path / "m", "--probabilities"]
    slow = ["--loss", "odm", "--lam", "1e7", "--gamma", "2", "--n-jobs", "1"]
    with subprocess.Popen([*map(str, command), *slow], stdout=-1, stderr=-1, text=True) as process:
        while "calibrating probabilities" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err, err
    resuming = words_of(err).partition("without probabilities, is in ")[2].partition("resume with: dimargin ")[2]
    assert f"--resume {tmp_path / 'm'} --model {tmp_path / 'm'} --probabilities --calibration sigmoid" in resuming
    machine = dm.load(tmp_path / "m")[-1]
    assert isinstance(machine, dm.ODMClassifier) and machine.status_ == "converged"
    subprocess.run([sys.executable, "-m", "dimargin", *resuming.split(), "--max-time", "1"], check=True)
    assert hasattr(dm.load(tmp_path / "m"), "predict_proba")


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--calibration", "isotonic"), 2, "--calibration needs --probabilities"),
        (("--probabilities", "--calibration", "platt"), 2, "'platt' is not one of"),
        (("--probabilities", "--engine", "spark"), 2, "--probabilities cannot be used with --engine spark"),
        (("--calibration", "sigmoid", "--engine", "spark"), 2, "--calibration cannot be used with --engine spark"),
    ],
)
def test_flags_that_cannot_be(flags, status, message, dimargin, csv, tmp_path):
    found, out, error = dimargin("train", csv, "-m", tmp_path / "m", *flags)
    assert (found, out) == (status, "") and message in words_of(error) and not (tmp_path / "m").exists()


def test_a_method_of_a_later_scikit_learn_is_refused_before_the_work(dimargin, csv, tmp_path, monkeypatch):
    monkeypatch.setattr("dimargin.estimators.calibration.sklearn.__version__", "1.7.2")
    status, _, error = dimargin("train", csv, "-m", tmp_path / "m", "--probabilities", "--calibration", "temperature")
    assert status == 2 and "temperature scaling needs scikit-learn 1.8 or newer; 1.7.2 is" in words_of(error)


def test_a_class_of_one_row_is_named(dimargin, tmp_path):
    write_csv(tmp_path / "t.csv", np.eye(9), ["ham"] * 4 + ["spam"] * 4 + ["eggs"])
    status, out, error = dimargin("train", tmp_path / "t.csv", "-m", tmp_path / "m", "--loss", "odm", "--probabilities")
    assert (status, out) == (1, "") and "two rows or more of every class; class 'eggs' has one" in words_of(error)
    assert not (tmp_path / "m").exists()


def test_what_models_without_probabilities_and_detectors_answer(dimargin, csv, tmp_path):
    dm.save(dm.CoreSetSVDD().fit(read_data(csv).X), tmp_path / "ball")
    status, _, error = dimargin("predict", tmp_path / "ball", csv, "--probabilities")
    assert status == 1 and "an outlier detector, which has no probabilities" in words_of(error)
    status, _, error = dimargin("predict", tmp_path / "ball", csv, "--probabilities", "--decision-values")
    assert status == 2 and "cannot be used together" in words_of(error)
    trained(dimargin, csv, tmp_path / "m")
    assert "log_loss" not in json.loads(dimargin("evaluate", tmp_path / "m", csv, "--json")[1])
    assert "probabilities" not in json.loads(dimargin("info", tmp_path / "m", "--json")[1])


def test_machines_of_folds_predict_and_say_what_they_lack(dimargin, csv, tmp_path):
    rows, model = read_data(csv), tmp_path / "m"
    calibrated = CalibratedClassifierCV(make_pipeline(MinMaxScaler(), dm.SVMClassifier()), cv=3, ensemble=True)
    dm.save(calibrated.fit(rows.X, rows.y), model)
    np.testing.assert_array_equal(written(dimargin, model, tmp_path / "train.csv")[2], calibrated.predict_proba(rows.X))
    info = json.loads(dimargin("info", model, "--json")[1])
    gaps = [one.estimator[-1].duality_gap_ for one in calibrated.calibrated_classifiers_]
    assert info["relative_duality_gap"] == gaps and info["certificate"] == ["global"] * 3
    assert (
        dimargin("evaluate", model, csv, "-q")[0] == dimargin("report", model, csv, "-o", tmp_path / "p", "-q")[0] == 0
    )
    for what, command in {
        "--resume": ("train", csv, "-m", model, "--resume", model),
        "--decision-values": ("predict", model, csv, "--decision-values"),
        "--plot": ("evaluate", model, csv, "--plot", tmp_path / "p.png"),
        "--certify": ("info", model, "--certify", csv),
    }.items():
        status, _, error = dimargin(*command)
        said = "holds 3 machines, of the folds of a CalibratedClassifierCV with ensemble=True; "
        assert status in (1, 2) and f"{said}{what} needs ensemble=False" in words_of(error)


def test_a_pipeline_inside_the_calibration_is_resumed(dimargin, csv, tmp_path):
    rows, model = read_data(csv), tmp_path / "m"
    machine = make_pipeline(MinMaxScaler(), dm.SVMClassifier(max_iter=2, C=1e4))
    with pytest.warns(match="stopped before"):
        dm.save(CalibratedClassifierCV(machine, ensemble=False).fit(rows.X, rows.y), model)
    facts, _ = trained(dimargin, csv, model, "--resume", model, "--max-iter", 1000)
    assert facts["status"] == "converged" and len(written(dimargin, model, csv)[1]) == 300
