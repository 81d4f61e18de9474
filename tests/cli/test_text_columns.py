"""Models with a vectorizer for one column of a table, which are trained in Python, and the files that they read."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import dimargin as dm
from dimargin.estimators.preprocessing import CategoryEncoder

WORDS = ["A prize, now", "TRUE win of 100", "the meeting", "01"]


def mails(n=40):
    return pd.DataFrame({
        "size": np.where(np.arange(n) % 7 == 0, np.nan, np.arange(n, dtype=float)), "mail": np.resize(WORDS, n),
        "from": np.resize(["Bern", "Graz", "Lodz"], n), "topic": np.where(np.arange(n) % 4 < 2, "spam", "ham"),
    })  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """The path of a model, and the model."""
    vectorizer = TfidfVectorizer(lowercase=False, token_pattern=r"\S+")
    columns = ColumnTransformer([
        ("size", SimpleImputer(), ["size"]), ("words", vectorizer, "mail"),
        ("places", CategoryEncoder(handle_unknown="ignore"), ["from"]),
        ("more", HashingVectorizer(n_features=8), "mail"),
    ])  # fmt: skip
    rows = mails()
    trained = make_pipeline(columns, dm.SVMClassifier(random_state=0)).fit(rows.drop(columns="topic"), rows["topic"])
    dm.save(trained, tmp_path / "model", {"label": "topic"})
    return tmp_path / "model", trained


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_are_predicted_as_data_frames_are(model, dimargin, tmp_path, suffix):
    """Texts are read as they are written, and not spelt as categories are: 01 stays 01, TRUE stays TRUE."""
    path, trained = model
    rows, data = mails(20).sample(20, random_state=0), tmp_path / f"rows{suffix}"
    rows.loc[3, "from"] = "Wien"
    rows.to_csv(data, index=False) if suffix == ".csv" else rows.to_parquet(data)
    with pytest.warns(UserWarning, match="'Wien'"):
        expected = trained.decision_function(rows)
    status, out, err = dimargin("predict", path, data, "--decision-values")
    assert status == 0 and err.count("warning") == 1 and "in 1 of 20 rows, column 'from' has a category" in err
    np.testing.assert_allclose([float(line.split("\t")[1]) for line in out.splitlines()], expected, rtol=1e-8)
    status, out, _ = dimargin("evaluate", path, data, "--json")
    assert status == 0 and json.loads(out)["accuracy"] == (trained.predict(rows) == rows["topic"]).mean()
    assert dimargin("report", path, data, "--output", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "mail" in page and "A prize, now" in page and "Wien" in page


def test_info_names_the_columns_of_texts_and_that_words_are_kept(model, dimargin):
    status, out, _ = dimargin("info", model[0], "--json")
    facts = json.loads(out)
    assert status == 0 and "1 column of texts, by TfidfVectorizer" in facts["columns"]
    assert "the vocabulary of the TfidfVectorizer is of words in training texts" in facts["privacy"]


def test_a_missing_text_is_named(model, dimargin, tmp_path):
    rows = mails(5)
    rows.loc[2, "mail"] = None
    rows.to_csv(tmp_path / "rows.csv", index=False)
    status, _, err = dimargin("predict", model[0], tmp_path / "rows.csv")
    assert status == 1 and "rows.csv, line 4: the text in column 'mail' is missing" in err


def test_pandas_is_named_where_it_is_missing(model, dimargin, tmp_path, monkeypatch):
    mails(5).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr("dimargin.cli.open_model.find_spec", lambda name: None)
    status, _, err = dimargin("predict", model[0], tmp_path / "rows.csv")
    assert status == 1 and "pip install pandas" in err
