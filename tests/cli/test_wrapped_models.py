"""Commands on models with searches, other steps and pipelines inside of pipelines, which were saved in Python."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import dimargin as dm
from dimargin.display.unwrap import uncalibrated

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(80, 3)), columns=["a", "b", "c"])
FRAME["kind"] = RNG.choice(["x", "y"], 80)
LABELS = np.where(FRAME.a + (FRAME.kind == "x") > 0.5, "ham", "spam")
COLUMNS = ColumnTransformer(
    [
        ("kind", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ("a", SimpleImputer(), ["a"]),
        ("b", FunctionTransformer(np.cbrt), ["b"]),
        ("main", PCA(1), ["b", "c"]),
    ]
)


def search(*steps):
    machine = dm.SVMClassifier(random_state=0)
    return GridSearchCV(make_pipeline(*steps, machine), {"svmclassifier__C": [1.0, 10.0]}, cv=3)


MODELS = {
    "search": search(StandardScaler(), PCA(2)),
    "search inside": make_pipeline(StandardScaler(), GridSearchCV(dm.LinearODMClassifier(), {"lam": [10.0]}, cv=3)),
    "own search": dm.SVMClassifierCV(param_grid={"C": [1.0, 10.0]}, random_state=0),
    "pipeline inside": make_pipeline(make_pipeline(StandardScaler(), PCA(2)), dm.SVMClassifier(C=10.0)),
    "columns": search(COLUMNS, StandardScaler()),
    "calibrated search": make_pipeline(StandardScaler(), CalibratedClassifierCV(search(PCA(2)), ensemble=False)),
}


@pytest.fixture
def files(tmp_path):
    """Write data, and a model that was fitted to them; returns the paths and the model."""

    def make(name):
        columns = [*FRAME] if name == "columns" else ["a", "b", "c"]
        FRAME[columns].assign(label=LABELS).to_csv(tmp_path / "rows.csv", index=False)
        X = FRAME[columns] if name == "columns" else FRAME[columns].to_numpy()
        model = MODELS[name].fit(X, LABELS)
        dm.save(model, tmp_path / "model", {"label": "label"})
        return tmp_path / "model", tmp_path / "rows.csv", model, X

    return make


@pytest.mark.parametrize("name", MODELS)
def test_predict_and_evaluate(name, files, dimargin):
    path, rows, model, X = files(name)
    status, out, err = dimargin("predict", path, rows, "--decision-values")
    assert status == 0, err
    labels, values = zip(*(line.split("\t") for line in out.splitlines()), strict=True)
    assert list(labels) == model.predict(X).tolist()
    expected = uncalibrated(model).decision_function(X)
    np.testing.assert_allclose(np.array(values, dtype=float), expected, rtol=1e-6, atol=1e-9)
    status, out, _ = dimargin("evaluate", path, rows, "--json")
    assert json.loads(out)["accuracy"] == pytest.approx(np.mean(model.predict(X) == LABELS))


@pytest.mark.parametrize("name", MODELS)
def test_info_shows_the_machine_and_what_the_search_has_found(name, files, dimargin):
    path, _, model, _ = files(name)
    status, out, err = dimargin("info", path, "--json")
    assert status == 0, err
    facts = json.loads(out)
    if name == "pipeline inside":
        assert "search" not in facts and (facts["scaling"], facts["steps"]) == ("StandardScaler", "PCA")
        return
    found = uncalibrated(model)[-1] if name in ("search inside", "calibrated search") else model
    assert facts["search"] == type(found).__name__ and facts["best"] == found.best_params_
    assert facts["cross_validated_score"] == pytest.approx(found.best_score_)
    assert facts["machine"] == {"search inside": "LinearODMClassifier"}.get(name, "SVMClassifier")
    assert facts["relative_duality_gap"] >= 0


def test_the_machine_in_a_search_is_certified(files, dimargin):
    path, rows, model, X = files("search")
    assert dimargin("info", path, "--certify", rows)[0] == 0
    again = dm.load(path)
    inside = model.best_estimator_[:-1].transform(X)
    expected = model.best_estimator_[-1].certify(inside, LABELS).duality_gap_
    assert (
        again.best_estimator_[-1].duality_gap_ == pytest.approx(expected) and again.best_params_ == model.best_params_
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_report_knows_what_is_inside(name, files, dimargin, tmp_path):
    path, rows, _, _ = files(name)
    status, _, err = dimargin("report", path, rows, "--output", tmp_path / "page.html")
    assert status == 0, err
    page = (tmp_path / "page.html").read_text()
    if name in ("search", "pipeline inside"):
        assert "StandardScaler, PCA" in page and "The model was trained on these rows" in page


@pytest.mark.parametrize("name", ["search", "own search", "pipeline inside", "calibrated search"])
def test_a_search_is_not_resumed(name, files, dimargin, tmp_path):
    path, rows, _, _ = files(name)
    status, _, err = dimargin("train", rows, "--model", tmp_path / "new", "--resume", path)
    assert status == 2 and "holds a search or a pipeline in a pipeline" in " ".join(err.replace("│", "").split())
    assert not (tmp_path / "new").exists()


def test_a_machine_after_other_steps_is_resumed(files, dimargin, tmp_path):
    path, rows, model, _ = files("search")
    dm.save(model.best_estimator_, path, {"label": "label"})
    status, _, err = dimargin("train", rows, "--model", tmp_path / "new", "--resume", path, "--tol", "1e-6")
    assert status == 0, err
    again = dm.load(tmp_path / "new")
    assert [type(step).__name__ for _, step in again.steps] == ["StandardScaler", "PCA", "SVMClassifier"]
    assert again[-1].duality_gap_ <= 1e-6


def test_export_takes_the_machine_of_a_search_but_no_other_steps(files, dimargin, tmp_path):
    path, _, _, _ = files("search")
    status, _, err = dimargin("export", path, tmp_path / "text")
    assert status == 1 and "scales rows or encodes columns" in err
    X = FRAME[["a", "b", "c"]].to_numpy()
    own = dm.SVMClassifierCV(param_grid={"C": [1.0, 10.0]}, random_state=0).fit(X, (LABELS == "ham").astype(int))
    dm.save(own, path)
    assert dimargin("export", path, tmp_path / "text")[0] == 0
    assert dm.from_libsvm(tmp_path / "text").predict(X).tolist() == own.predict(X).tolist()


def test_a_model_of_texts_is_shown_but_predicts_in_python_only(dimargin, tmp_path):
    texts = ["a prize", "win money", "the meeting", "a report"] * 5
    model = make_pipeline(TfidfVectorizer(), dm.LinearODMClassifier(max_iter=5)).fit(texts, [0, 0, 1, 1] * 5)
    dm.save(model, tmp_path / "model")
    status, out, _ = dimargin("info", tmp_path / "model", "--json")
    facts = json.loads(out)
    assert status == 0 and facts["features"] == 6 and facts["steps"] == "TfidfVectorizer"
    assert facts["privacy"] == "the vocabulary of the TfidfVectorizer is of words in training texts"
    (tmp_path / "rows.csv").write_text("text\na prize\n")
    for command in ("predict", "evaluate", "report"):
        flags = ["--output", tmp_path / "page"] if command == "report" else []
        status, _, err = dimargin(command, tmp_path / "model", tmp_path / "rows.csv", *flags)
        assert status == 1 and "takes texts, not rows of a data file (its steps are TfidfVectorizer)" in err


def test_a_linear_machine_after_nystroem_keeps_training_rows(dimargin, tmp_path):
    X = FRAME[["a", "b", "c"]].to_numpy()
    model = make_pipeline(Nystroem(n_components=5, random_state=0), dm.LinearODMClassifier()).fit(X, LABELS)
    dm.save(model, tmp_path / "model")
    facts = json.loads(dimargin("info", tmp_path / "model", "--json")[1])
    assert facts["privacy"] == "components of the Nystroem are training rows"
