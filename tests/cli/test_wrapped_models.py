"""Commands on models with searches, other steps and pipelines inside of pipelines, which were saved in Python."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
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


TEXTS = ["A prize, now", "win 100", "the meeting", "a report "] * 5
TOPICS = ["spam", "spam", "ham", "ham"] * 5


@pytest.fixture
def texts(tmp_path):
    """Write a model of texts; returns its path, the model, and a function that writes data."""
    vectorizer = TfidfVectorizer(lowercase=False, token_pattern=r"\S+")
    machine = dm.LinearODMClassifier(solver="svrg", max_iter=2, tol=1e-9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_pipeline(vectorizer, machine).fit(TEXTS, TOPICS)
    dm.save(model, tmp_path / "model", {"label": "topic"})

    def write(suffix=".csv", **columns):
        frame, path = pd.DataFrame(columns), tmp_path / f"rows{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return path

    return tmp_path / "model", model, write


def test_info_shows_a_model_of_texts(texts, dimargin):
    status, out, _ = dimargin("info", texts[0], "--json")
    facts = json.loads(out)
    assert status == 0 and facts["features"] == 9 and facts["steps"] == "TfidfVectorizer"
    assert facts["privacy"] == "the vocabulary of the TfidfVectorizer is of words in training texts"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_only_column_of_texts_is_predicted(suffix, texts, dimargin):
    path, model, write = texts
    given = ["A prize, now", "True", "0100", "a\nreport", "win win"]
    answers = zip(model.predict(given), model.decision_function(given), strict=True)
    expected = [[name, f"{value:.9g}"] for name, value in answers]
    for columns in ({}, {"id": range(5)}, {"topic": ["x"] * 5, "id": range(5)}):
        status, out, err = dimargin("predict", path, write(suffix, mail=given, **columns), "--decision-values")
        assert status == 0, err
        assert [line.split("\t") for line in out.splitlines()] == expected


def test_texts_are_scored_with_weights(texts, dimargin):
    path, model, write = texts
    wrong = np.array(["ham", *TOPICS[1:]])
    rows = write(topic=wrong, mail=TEXTS, weight=[3.0, *[1.0] * 19])
    status, out, err = dimargin("evaluate", path, rows, "--weight", "weight", "--json")
    assert status == 0, err
    expected = np.average(model.predict(TEXTS) == wrong, weights=[3.0, *[1.0] * 19])
    assert json.loads(out)["accuracy"] == pytest.approx(expected) and expected < 0.9


def test_texts_without_a_label_are_left_out_of_the_scores(texts, dimargin, tmp_path):
    path, model, write = texts
    labels, weights = [None, *TOPICS[1:]], [3.0, *[1.0] * 18, 2.0]
    rows = write(topic=labels, mail=TEXTS, weight=weights)
    status, _, err = dimargin("evaluate", path, rows)
    assert status == 1 and f"{rows}, line 2: the label in column 'topic' is missing (1 of 20 rows has no label)" in err
    for suffix in (".csv", ".parquet"):
        rows = write(suffix, topic=labels, mail=TEXTS, weight=weights)
        status, out, err = dimargin("evaluate", path, rows, "--skip-unlabelled", "--weight", "weight", "--json")
        assert status == 0 and f"warning: {rows}: 1 of 20 rows has no label and is left out" in err
        facts, expected = json.loads(out), model.predict(TEXTS)[1:] == np.array(TOPICS[1:])
        assert facts["rows"] == 19 and facts["accuracy"] == pytest.approx(np.average(expected, weights=weights[1:]))
    status, _, err = dimargin("report", path, rows, "--skip-unlabelled", "-o", tmp_path / "page.html")
    assert status == 0 and "1 row without a label was left out" in (tmp_path / "page.html").read_text()


def test_a_noted_column_of_texts_is_taken(texts, dimargin):
    path, model, write = texts
    rows = write(subject=["win 100"] * 4, mail=TEXTS[:4], topic=TOPICS[:4])
    status, _, err = dimargin("predict", path, rows)
    assert status == 1 and "has 2 columns of texts ('subject', 'mail') besides the label" in " ".join(err.split())
    dm.save(model, path, {"label": "topic", "text": 5})
    assert "has 2 columns of texts" in " ".join(dimargin("predict", path, rows)[2].split())
    dm.save(model, path, {"label": "topic", "text": "mail"})
    assert dimargin("predict", path, rows)[1].split() == model.predict(TEXTS[:4]).tolist()
    assert json.loads(dimargin("evaluate", path, rows, "--json")[1])["accuracy"] == 1.0
    status, _, err = dimargin("predict", path, write(subject=["win 100"]))
    assert status == 1 and "lacks the column 'mail'" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('mail\na prize\n""\n', "line 3: the text in column 'mail' is missing"),
        ("size,topic\n1,ham\n", "has no columns of texts besides the label"),
        ("topic\nham\n", "has no features"),
    ],
)
def test_files_without_the_texts_are_refused(content, message, texts, dimargin, tmp_path):
    (tmp_path / "rows.csv").write_text(content)
    status, out, err = dimargin("predict", texts[0], tmp_path / "rows.csv")
    assert status == 1 and message in " ".join(err.split()) and not out


def test_libsvm_text_has_no_texts(texts, dimargin, tmp_path):
    (tmp_path / "rows.txt").write_text("1 1:2.5\n")
    status, _, err = dimargin("predict", texts[0], tmp_path / "rows.txt")
    assert status == 1 and "LIBSVM text has neither column names" in " ".join(err.split())


def test_a_report_shows_texts(texts, dimargin, tmp_path):
    path, _, write = texts
    rows = write(topic=["ham", *TOPICS[1:]], mail=TEXTS)
    status, _, err = dimargin("report", path, rows, "--output", tmp_path / "page.html")
    assert status == 0, err
    page = (tmp_path / "page.html").read_text()
    wrong = page[page.index("Most certain wrong predictions") :]
    assert "TfidfVectorizer" in page and "A prize, now" in wrong and "mail" in wrong and "the meeting" not in wrong


def test_a_model_of_texts_is_resumed(texts, dimargin, tmp_path):
    path, model, write = texts
    model = make_pipeline(HashingVectorizer(n_features=64), model[-1])
    with pytest.warns(ConvergenceWarning):
        dm.save(model.fit(TEXTS, TOPICS), path, {"label": "topic"})
    rows = write(topic=TOPICS, mail=TEXTS)
    status, _, err = dimargin("train", rows, "--model", tmp_path / "new", "--resume", path, "--max-iter", "300")
    assert status == 0, err
    again = dm.load(tmp_path / "new")
    assert again.predict(TEXTS).tolist() == TOPICS
    assert again[-1].duality_gap_ < 0.9 * model[-1].duality_gap_
    assert dimargin("info", path, "--certify", rows)[0] == 0


def test_a_linear_machine_after_nystroem_keeps_training_rows(dimargin, tmp_path):
    X = FRAME[["a", "b", "c"]].to_numpy()
    model = make_pipeline(Nystroem(n_components=5, random_state=0), dm.LinearODMClassifier()).fit(X, LABELS)
    dm.save(model, tmp_path / "model")
    facts = json.loads(dimargin("info", tmp_path / "model", "--json")[1])
    assert facts["privacy"] == "components of the Nystroem are training rows"
