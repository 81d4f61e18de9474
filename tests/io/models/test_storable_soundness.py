"""Files whose checksum is right, but whose transformers, vectorizers and searches lie, are refused with the reason."""

import re

import numpy as np
import pytest
import storable_models
from tampering import array_of, told

import dimargin as dm
from dimargin.io.models import ModelFileError, model_format

FUNCTION = {"function": "numpy.log1p"}


def parameter(**values):
    """Other parameters of the first step."""
    return lambda header, arrays: header["steps"][0]["parameters"].update(values)


def best(change):
    """A change of the best estimator of a search, as it is encoded."""
    return lambda header, arrays: change(header["steps"][0]["attributes"]["best_estimator_"])


def unfit(encoded):
    step = encoded.pop("step")
    encoded.update(unfitted=step["class"], parameters=step["parameters"])


def twice(header, arrays):
    """One array in two places, as a file would have it that takes more memory than its size."""
    attributes = header["steps"][0]["attributes"]
    attributes["explained_variance_ratio_"] = attributes["explained_variance_"]


def drawn(name, args):
    """Encoded values of a search, drawn from a distribution."""
    return {"dict": [["a", {"distribution": name, "parameters": {"args": {"tuple": args}, "kwds": {"dict": []}}}]]}


LIES = {
    "PCA": {
        "too few means": (array_of("mean_", lambda a: a[:1]), "mean_ of the PCA must be an array of finite numbers"),
        "a mean that is no number": (array_of("mean_", lambda a: a * np.nan), "mean_ of the PCA"),
        "components of other rows": (array_of("components_", lambda a: a[:2]), r"components_ .* of shape \(3, 4\)"),
        "components of text": (told(components_="wide"), "components_ of the PCA must be .*, got 'wide'"),
        "more components": (array_of("components_", lambda a: np.r_[a, a]), "_ of the PCA"),
        "another number of components": (told(n_components_=2), "_ of the PCA"),
        "half a row": (told(n_samples_=1.5), "n_samples_ of the PCA must be an integer, got 1.5"),
        "no noise": (told(noise_variance_=None), "noise_variance_ of the PCA must be a number, got None"),
        "a parameter of text": (parameter(whiten="much"), "'whiten' parameter of PCA"),
        "a method": (told(transform="x"), r"unknown attributes \['transform'\]"),
        "one array twice": (twice, "the array .* is missing, or is the value of two parts"),
    },
    "TruncatedSVD": {
        "no components": (told(components_=None), "components_ of the TruncatedSVD"),
        "whole numbers": (array_of("components_", lambda a: a.astype(np.int64)), "components_ of the TruncatedSVD"),
    },
    "Nystroem": {
        "an unknown kernel": (parameter(kernel="os.system"), "'kernel' parameter of Nystroem"),
        "a function as a kernel": (parameter(kernel=FUNCTION), "step 'nystroem': its width, .*kernel"),
        "parameters of the kernel": (
            parameter(kernel_params={"dict": [["Y", 1]]}), "must be a name, without kernel_params",
        ),
        "too few weights": (array_of("normalization_", lambda a: a[1:]), "normalization_ of the Nystroem"),
        "infinite weights": (array_of("normalization_", lambda a: a * np.inf), "normalization_ of the Nystroem"),
        "indices of fractions": (array_of("component_indices_", lambda a: a + 0.5), "component_indices_ of the Nys"),
    },
    "RobustScaler": {
        "no center": (told(center_=None), "center_ of the RobustScaler"),
        "one scale": (array_of("scale_", lambda a: a[:1]), "scale_ of the RobustScaler"),
    },
    "SelectKBest": {
        "too few scores": (array_of("scores_", lambda a: a[:1]), "scores_ of the SelectKBest"),
        "scores of text": (told(scores_="high"), "scores_ of the SelectKBest"),
        "no columns": (parameter(k=0), "its steps have different widths: 'svmclassifier'"),
        "other columns": (parameter(k=3), "its steps have different widths"),
        "a function of files": (
            parameter(score_func={"function": "os.system"}), "'os.system' is not a function that model files may name",
        ),
    },
    "SelectPercentile": {"a percentile of text": (parameter(percentile="some"), "'percentile' parameter")},
    "VarianceThreshold": {"no variances": (told(variances_=None), "variances_ of the VarianceThreshold")},
    "FunctionTransformer": {
        "a function of files": (parameter(func={"function": "builtins.eval"}), "'builtins.eval' is not a function"),
        "an expression": (parameter(func={"function": "lambda x: x"}), "'lambda x: x' is not a function"),
        "a text": (parameter(func="eval"), "'func' parameter of FunctionTransformer"),
        "a function of labels": (
            parameter(func={"function": "sklearn.feature_selection.chi2"}), "must be a function of rows",
        ),
        "arguments": (parameter(kw_args={"dict": [["out", 1]]}), "kw_args, .* are not stored"),
    },
    "TfidfVectorizer": {
        "slow words": (parameter(token_pattern="(a+)+b"), r"token_pattern .*, got '\(a\+\)\+b', .* exponential time"),
        "no pattern": (parameter(token_pattern=None), "token_pattern of the TfidfVectorizer"),
        "a function": (parameter(tokenizer=FUNCTION), "tokenizer of the TfidfVectorizer is a function"),
        "accents by a function": (parameter(strip_accents=FUNCTION), "strip_accents of the TfidfVectorizer is a func"),
        "an analyzer of text": (parameter(analyzer="os"), "'analyzer' parameter"),
        "names of files": (parameter(input="filename"), "input of .* must be 'content', got 'filename'"),
        "long n-grams": (parameter(ngram_range={"tuple": [1, 10**6]}), r"ngram_range .* 1 to 16, got \(1, 1000000\)"),
        "n-grams of text": (parameter(ngram_range={"tuple": ["a", "b"]}), "ngram_range"),
        "one n-gram": (parameter(ngram_range={"tuple": [1]}), "ngram_range"),
        "an encoding of files": (parameter(encoding="os.path"), "encoding .* must be one of Python's, got 'os.path'"),
        "another type": (parameter(dtype={"dtype": "int64"}), "dtype of .* must be one of float32, float64, got"),
        "an unknown type": (parameter(dtype={"dtype": "object"}), "object"),
        "stop words of numbers": (parameter(stop_words={"list": [1]}), "stop_words of .* must be texts"),
        "too few weights": (array_of("idf_", lambda a: a[:1]), "idf_ of the TfidfVectorizer does not fit"),
        "no weights": (told(idf_=None), "missing 1 required positional argument: 'idf_'"),
        "weights that are not used": (parameter(use_idf=False), "idf_ of the TfidfVectorizer does not fit"),
        "no words": (array_of("ends", lambda a: a[:0]), "the vocabulary of a vectorizer is not 1 to"),
        "words beyond the letters": (array_of("ends", lambda a: a + 1), "the vocabulary of a vectorizer"),
        "words that end before they begin": (array_of("ends", lambda a: np.r_[a[1], a[0], a[2:]]), "the vocabulary"),
        "half letters": (array_of("words", lambda a: a.astype(np.float64)), "the vocabulary of a vectorizer"),
        "letters of no text": (array_of("words", lambda a: np.full_like(a, 255)), "codec can't decode"),
        "one word twice": (array_of("words", lambda a: np.full_like(a, 97)), "has equal words"),
        "another vocabulary": (told(fixed_vocabulary_="no"), "fixed_vocabulary_ of .* must be True or"),
    },
    "HashingVectorizer": {
        "slow words": (parameter(token_pattern=r"(\w+\s?)+$"), "token_pattern of the HashingVectorizer"),
        "other columns": (parameter(n_features=7), "its steps have different widths"),
        "no columns": (parameter(n_features=0), "'n_features' parameter"),
    },
    "GridSearchCV": {
        "no machine": (best(lambda e: e["step"]["parameters"]["steps"]["list"].pop()), "should have a 'score' method"),
        "a pipeline that is not fitted": (best(unfit), "a Pipeline is stored as if it were not fitted"),
        "a machine that is not fitted": (
            best(lambda e: unfit(e["step"]["parameters"]["steps"]["list"][-1]["tuple"][1])), "is not fitted",
        ),
        "a scaler that is not fitted": (
            best(lambda e: unfit(e["step"]["parameters"]["steps"]["list"][0]["tuple"][1])), "'scale' is not fitted",
        ),
        "a text for a machine": (told(best_estimator_="SVC"), "best_estimator_ of the GridSearchCV must be a fitted"),
        "a class of files": (best(lambda e: e["step"].update({"class": "Popen"})), "'Popen' is not a class of model f"),
        "steps of text": (best(lambda e: e["step"]["parameters"].update(steps="abc")), "steps of a pipe|string index"),
        "a folder to read from": (
            best(lambda e: e["step"]["parameters"].update(memory="/tmp")), r"a Pipeline has the parameters \['mem",
        ),
        "a folder in the grid": (
            parameter(param_grid={"dict": [["memory", {"list": ["/tmp"]}]]}), "chooses the memory of a pipeline",
        ),
        "a folder of the estimator": (
            lambda h, a: h["steps"][0]["parameters"]["estimator"]["parameters"].update(memory="/tmp"),
            "a Pipeline has the parameters",
        ),
        "scores by a function": (parameter(scoring=FUNCTION), "scoring of the GridSearchCV must be None or names"),
        "unknown scores": (parameter(scoring="os.system"), "scoring of the GridSearchCV must be .*, got 'os.system'"),
        "scores of many kinds": (parameter(scoring={"list": ["f1", "accuracy"]}), "do not fit together"),
        "refit by a function": (parameter(refit=FUNCTION), "no best estimator, or chose it by a function"),
        "an expression": (parameter(pre_dispatch="__import__('os')"), "pre_dispatch of the GridSearchCV"),
        "numbers as names": (told(best_params_={"dict": [[1, 2]]}), "best_params_, .* of the GridSearchCV are invalid"),
        "results of text": (told(cv_results_="good"), "cv_results_ .* of the GridSearchCV are invalid"),
        "no results": (told(cv_results_={"dict": []}), "cv_results_ .* of the GridSearchCV are invalid"),
        "a score of text": (told(best_score_="good"), "best_score_ of the GridSearchCV must be a number, got 'good'"),
        "parameters of text": (told(best_params_="good"), "best_params_, .* of the GridSearchCV are invalid"),
        "an unknown splitter": (parameter(cv={"splitter": "Popen", "parameters": {}}), "Popen"),
        "half a fold": (told(n_splits_=1.5), "n_splits_ of the GridSearchCV must be an integer, got 1.5"),
        "a mask of another shape": (
            lambda h, a: next(
                value for key, value in h["steps"][0]["attributes"]["cv_results_"]["dict"] if key.startswith("param_")
            )["masked"].update(mask={"list": []}),
            "has no attribute 'dtype'",
        ),
    },
    "RandomizedSearchCV": {
        "a folder among the values": (
            parameter(param_distributions={"list": [{"dict": [["memory", {"list": ["/tmp"]}]]}]}), "chooses the memory",
        ),
        "an unknown distribution": (
            parameter(param_distributions=drawn("rv_histogram", [])), "rv_histogram",
        ),
        "a distribution of texts": (
            parameter(param_distributions=drawn("norm", ["os.system"])),
            "a distribution 'norm' has parameters that are not numbers",
        ),
    },
    "CountVectorizer": {
        "weights": (lambda h, a: h["steps"][0]["attributes"].update(idf_=1.0), "idf_ of the CountVectorizer does not"),
        "another norm": (parameter(norm="l2"), "unexpected keyword argument"),
    },
    "HalvingGridSearchCV": {
        "resources of text": (
            lambda h, a: h["steps"][1]["attributes"].update(n_resources_={"list": ["many"]}), "n_resources_ or n_can",
        ),
    },
    "TfidfTransformer": {
        "a weight too few": (
            array_of("idf_", lambda weights: weights[1:]), "idf_ of the TfidfTransformer must be an array",
        ),
        "no weights": (told(idf_=None), "idf_ of the TfidfTransformer does not fit use_idf"),
        "nothing as weights": (lambda h, a: h["steps"][0]["attributes"].update(idf_=None), "does not fit use_idf"),
        "weights that are not used": (parameter(use_idf=False), "idf_ of the TfidfTransformer does not fit use_idf"),
    },
    "ODMClassifierCV": {
        "no best estimator": (told(best_estimator_=None), "best_estimator_ of the ODMClassifierCV must be a fitted"),
        "another search": (told(best_index_=10**6), "best_index_ of the ODMClassifierCV is not an entry"),
        "rounds of text": (told(rounds_={"list": ["x"]}), "edges_ or rounds_ of the ODMClassifierCV are invalid"),
        "an unfitted machine that is fitted": (
            parameter(estimator={"unfitted": "HashingVectorizer", "parameters": {}}), "as if it were not fitted",
        ),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Header and arrays of a sound file for every class, whose first step is of the class."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name in LIES:
        dm.save(storable_models.fitted(name), folder / name)
        found[name] = model_format.read_raw(folder / name)
    return found


@pytest.mark.parametrize(("name", "lie"), [(name, lie) for name in LIES for lie in LIES[name]])
def test_a_step_that_lies_is_refused(name, lie, sources, tmp_path):
    header, arrays = sources[name]
    path = tmp_path / "m"
    path.write_bytes(model_format.file_content(header, arrays))
    dm.load(path)
    header, arrays = model_format.read_raw(path)
    change, reason = LIES[name][lie]
    change(header, arrays)
    path.write_bytes(model_format.file_content(header, arrays))
    with pytest.raises(ModelFileError, match=f"{re.escape(str(path))} is not a valid model: .*{reason}"):
        dm.load(path)
