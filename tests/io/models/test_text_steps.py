"""Vectorizers in model files: words, weights and the ways to find them, and what a file may not choose."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from storable_models import LABELS, NEW, TEXTS
from tampering import refuse

import dimargin as dm
from dimargin.io.models import model_format, register_pattern, text_steps

VECTORIZERS = {
    "as it is": TfidfVectorizer(),
    "no weights": TfidfVectorizer(use_idf=False, norm=None),
    "weights that are not smooth": TfidfVectorizer(smooth_idf=False, sublinear_tf=True, binary=True),
    "given words": TfidfVectorizer(vocabulary=["café", "prize", "meeting"]),
    "given columns": TfidfVectorizer(vocabulary={"prize": 1, "meeting": 0}),
    "letters": TfidfVectorizer(analyzer="char", ngram_range=(2, 4), max_features=30, strip_accents="unicode"),
    "frequent words": TfidfVectorizer(min_df=2, max_df=0.5, stop_words="english", lowercase=False),
    "other words": TfidfVectorizer(token_pattern=r"\S+", dtype=np.float32),
    "hashes of pairs": HashingVectorizer(n_features=2**10, ngram_range=(2, 2), alternate_sign=False, norm="l1"),
}


@pytest.mark.parametrize("name", VECTORIZERS)
@pytest.mark.filterwarnings("ignore:The parameter 'token_pattern':UserWarning")
def test_texts_become_the_same_numbers(name, tmp_path):
    model = make_pipeline(VECTORIZERS[name], dm.SVMClassifier(random_state=0)).fit(TEXTS, LABELS)
    dm.save(model, tmp_path / "m")
    again = dm.load(tmp_path / "m")
    rows, expected = again[0].transform(NEW["texts"]), model[0].transform(NEW["texts"])
    assert (rows != expected).nnz == 0 and rows.dtype == expected.dtype
    assert again.decision_function(NEW["texts"]).tobytes() == model.decision_function(NEW["texts"]).tobytes()
    assert repr(again) == repr(model)
    if name != "hashes of pairs":
        assert again[0].vocabulary_ == model[0].vocabulary_
        assert again[0].fixed_vocabulary_ == model[0].fixed_vocabulary_
        assert again[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()


@pytest.mark.parametrize("make", [TfidfVectorizer, HashingVectorizer])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tokenizer": str.split, "token_pattern": None}, "tokenizer"),
        ({"preprocessor": str.lower}, "preprocessor"),
        ({"analyzer": str.split}, "analyzer"),
        (
            {"token_pattern": "[a-z]+[0-9]?"},
            r"got '\[a-z\]\+\[0-9\]\?', or it must be registered by .*register_pattern",
        ),
        ({"ngram_range": (1, 17)}, r"ngram_range .* two integers from 1 to 16, got \(1, 17\)"),
        ({"encoding": "idna"}, "encoding .* must be one of Python's, got 'idna'"),
    ],
)
def test_what_files_do_not_hold_of_a_vectorizer_is_named(make, options, reason, tmp_path):
    model = make_pipeline(make(**options), dm.SVMClassifier()).fit(TEXTS, LABELS)
    with pytest.raises(TypeError, match=f"({make.__name__}|{make.__name__.lower()}).*{reason}"):
        dm.save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_model_of_texts_opens_no_files(tmp_path):
    (tmp_path / "text").write_text("one more text")
    model = make_pipeline(TfidfVectorizer(input="filename"), dm.SVMClassifier()).fit(
        [tmp_path / "text"] * 4, [0, 1] * 2
    )
    with pytest.raises(TypeError, match="input of the TfidfVectorizer must be 'content', got 'filename'"):
        dm.save(model, tmp_path / "m")


def test_a_pattern_that_was_registered_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(text_steps, "_patterns", set(text_steps._patterns))
    model = make_pipeline(TfidfVectorizer(token_pattern="[a-z]{3,}"), dm.SVMClassifier()).fit(TEXTS, LABELS)
    with pytest.raises(TypeError, match="token_pattern"):
        dm.save(model, tmp_path / "m")
    register_pattern("[a-z]{3,}")
    dm.save(model, tmp_path / "m")
    assert dm.load(tmp_path / "m").predict(NEW["texts"]).tolist() == model.predict(NEW["texts"]).tolist()
    with pytest.raises(ValueError, match="pattern must be a text, got 3"):
        register_pattern(3)


def test_words_are_limited(tmp_path, monkeypatch):
    model = make_pipeline(TfidfVectorizer(), dm.SVMClassifier()).fit(TEXTS, LABELS)
    monkeypatch.setattr(text_steps, "MAX_WORDS", 3)
    with pytest.raises(TypeError, match=r"the vocabulary of a vectorizer .* 1 to 3 words"):
        dm.save(model, tmp_path / "m")


def test_a_vocabulary_is_not_part_of_the_header(tmp_path):
    words = [f"word{k}" for k in range(5000)]
    model = make_pipeline(TfidfVectorizer(), dm.LinearODMClassifier(max_iter=1)).fit(words, [0, 1] * 2500)
    dm.save(GridSearchCV(model, {"tfidfvectorizer__min_df": [1]}, cv=2).fit(words, [0, 1] * 2500), tmp_path / "m")
    header, _ = model_format.read_raw(tmp_path / "m")
    assert "word17" not in str(header) and dm.load(tmp_path / "m").best_estimator_[0].vocabulary_["word17"] == sorted(
        words
    ).index("word17")


COLUMNS = {
    "words": TfidfVectorizer(ngram_range=(1, 2)),
    "counts": CountVectorizer(min_df=2),
    "hashes": HashingVectorizer(n_features=32),
    "topics": make_pipeline(TfidfVectorizer(), TruncatedSVD(2, random_state=0)),
}


def frame(texts):
    return pd.DataFrame({"size": np.arange(len(texts), dtype=float), "mail": texts})


def with_columns(*transformers):
    columns = ColumnTransformer([("size", StandardScaler(), ["size"]), *transformers], remainder="passthrough")
    return make_pipeline(columns, dm.SVMClassifier(random_state=0)).fit(frame(TEXTS), LABELS)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_vectorizer_of_one_column_is_stored(name, tmp_path):
    model = with_columns((name, COLUMNS[name], "mail"))
    dm.save(model, tmp_path / "a")
    again = dm.load(tmp_path / "a")
    for rows in (frame(NEW["texts"]), pl.from_pandas(frame(NEW["texts"]))):
        assert again.decision_function(rows).tobytes() == model.decision_function(rows).tobytes()
    assert repr(again) == repr(model) and again[0].output_indices_ == model[0].output_indices_
    assert [columns for *_, columns in again[0].transformers_] == [["size"], "mail"]
    dm.save(again, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_only_a_vectorizer_is_given_a_column_without_a_list(tmp_path):
    """Scikit-learn would take a list of columns as two texts, the names, and a name alone as a vector of numbers."""

    def lie(place, columns):
        def change(header, arrays):
            header["steps"][0]["parameters"]["transformers"]["list"][place]["tuple"][2] = columns

        dm.save(model, path)
        refuse(path, change)

    model, path = with_columns(("words", TfidfVectorizer(), "mail")), tmp_path / "m"
    lie(0, "size")
    lie(1, {"list": ["mail"]})
    lie(1, "post")
    model[0].transformers[0] = ("size", StandardScaler(), "size")
    with pytest.raises(TypeError, match="'size': expected a list of column names, or the name of one column for a vec"):
        dm.save(model, path)
