"""Model files, the checksum made valid again, and predictions and certificates by those that are loaded."""

import contextlib
import copy
import functools
import io
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
import storable_models
import typer.main
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler

import dimargin as dm
from dimargin.cli.app import app
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing import CalendarFeatures, SparseScaler
from dimargin.estimators.preprocessing.column_kinds import columns_of
from dimargin.io.models import ModelFileError, load_with_header, model_format, save

from .inputs import check_refusal, file, folder, mutated

_JUNK = [
    None,
    True,
    0,
    -1,
    1,
    2,
    0.5,
    1e300,
    10**400,
    float("nan"),
    "x",
    "",
    [],
    {},
    {"list": []},
    {"tuple": []},
    {"dict": []},
    {"array": "machine.dual_coef_"},
    {"array": "machine.coef_"},
    {"labels": ["a", "b"], "dtype": "<U1"},
    {"labels": ["a"], "dtype": "<U500000000"},
    {"labels": [], "dtype": "|O"},
    {"labels": [1, None], "dtype": "|O"},
    {"labels": ["a"], "dtype": "(1000000,1000000)f8"},
    {"precomputed_kernel": True},
    {"strategy": "Exact", "parameters": {}},
    {"csr": {}, "shape": [1, 2]},
    {"router": {}},
    {"list": [{"dict": [["a", 1]]}]},
    {"function": "numpy.exp"},
    {"function": "os.system"},
    {"function": "sklearn.feature_selection.chi2"},
    {"dtype": "float32"},
    {"dtype": "O"},
    {"distribution": "randint", "parameters": {"args": {"tuple": ["a", 5]}, "kwds": {"dict": []}}},
    {"splitter": "KFold", "parameters": {}},
    {"splitter": "KFold", "parameters": {"n_splits": 10**30}},
    {"unfitted": "PCA", "parameters": {}},
    {"unfitted": "HashingVectorizer", "parameters": {"token_pattern": "(a+)+b"}},
    {"unfitted": "Pipeline", "parameters": {"steps": {"list": []}}},
    {"step": {"class": "FunctionTransformer", "parameters": {}, "attributes": {}}},
    {"step": {"class": "HashingVectorizer", "parameters": {}, "attributes": {}}},
    {"step": {"class": "Pipeline", "parameters": {"steps": {"list": []}}, "attributes": {}}},
    {"masked": {"data": {"list": []}, "mask": True}},
    {"transposed": {"array": "pca.components_"}},
    {"flipped": {"array": "pca.components_"}, "axes": [0, 5]},
    {"tuple": [1, 2]},
    "(a+)+b",
    "passthrough",
    "memory",
    "filename",
    "precomputed",
    "linear",
    2**31,
    2**63,
]


command = typer.main.get_command(app)


@functools.cache
def sources():
    """Header and arrays of sound models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [*_fitted(), *map(storable_models.fitted, storable_models.MODELS)]
    found = []
    for model in models:
        save(model, folder / "source", {"label": "y", "zero_based": None})
        found.append(model_format.read_raw(folder / "source"))
    return found


def _fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=24) > 0, "ham", "spam")
    three = np.arange(24) % 3
    far = sp.csr_array((X.ravel(), np.tile([3, 50, 199], 24), 3 * np.arange(25)), shape=(24, 200))
    return [
        dm.ODMClassifier().fit(X, y),
        dm.SVMClassifier(fit_intercept=True).fit(sp.csr_array(X), y),
        dm.SVMClassifier(kernel="precomputed").fit(X @ X.T, three),
        dm.LinearODMClassifier().fit(X, three),
        dm.CoreSetSVMClassifier().fit(X, y),
        dm.CoreSetSVDD().fit(X),
        dm.OneClassCoreSetSVM(kernel="linear").fit(X),
        dm.CoreSetSVDD(kernel="linear").fit(sp.csr_array(X)),
        dm.OneClassCoreSetSVM(kernel="precomputed").fit(X @ X.T),
        dm.SVMClassifier(strategy=dm.DivideAndConquer(prediction="bcm"), n_levels=1, stop_level=1).fit(X, y),
        dm.GossipSVMClassifier(n_sites=2, max_iter=3).fit(X, y),
        *(
            Pipeline([("scaler", scaler), ("machine", dm.LinearODMClassifier(max_iter=1))]).fit(X, y)
            for scaler in (MinMaxScaler(), StandardScaler(), MaxAbsScaler(), QuantileTransformer(n_quantiles=3))
        ),
        dm.LinearODMClassifier(max_iter=1).fit(far, three),
        make_pipeline(SparseScaler(), dm.SVMClassifier(kernel="linear")).fit(far, y),
        dm.CoreSetSVDD(kernel="linear").fit(far),
        make_pipeline(_columns(), dm.LinearODMClassifier(max_iter=1)).fit(_table(X), y),
        make_pipeline(
            ColumnTransformer([("words", make_pipeline(HashingVectorizer(n_features=8), MaxAbsScaler()), "b")]),
            dm.SVMClassifier(),
        ).fit(_table(X).to_pandas(), y),
        make_pipeline(
            ColumnTransformer([("n", SimpleImputer(), ["a"]), ("words", TfidfVectorizer(), "c")]), dm.SVMClassifier()
        ).fit(_table(X).to_pandas(), y),
        make_pipeline(MinMaxScaler(), _calibrated("sigmoid")).fit(X, y),
        _calibrated("isotonic").fit(X, three),
    ]


def _calibrated(method):
    return CalibratedClassifierCV(dm.LinearODMClassifier(max_iter=1), method=method, cv=2, ensemble=method != "sigmoid")


def _columns():
    return ColumnTransformer(
        [
            ("numbers", SimpleImputer(add_indicator=True), ["a"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["b"]),
            ("dates", make_pipeline(CalendarFeatures(), MinMaxScaler()), ["c"]),
        ]
    )


def _table(X):
    """Rows as a table of numbers, texts and dates."""
    first = [None, *X[1:, 0].tolist()]
    dates = (np.datetime64("2020-01-01") + np.arange(len(X))).astype(str)
    return pa.table({"a": first, "b": np.where(X[:, 1] > 0, "x", "y"), "c": dates})


def _indices(value, path=()):
    """Paths to all values."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from _indices(inner, (*path, key))


def _other(rng, array):
    """An array that is nearly the same."""
    change = rng.randrange(8)
    if change == 0:
        with np.errstate(invalid="ignore", over="ignore"):
            return array.astype(rng.choice([np.int64, np.int32, np.float32, np.uint8, np.bool_]))
    if change == 1:
        return array[..., :-1] if array.ndim else array
    if change == 2:
        return array.ravel()
    if change == 3:
        return array[None]
    if change == 4:
        return array[:0] if array.ndim else array
    if array.size:
        array = array.copy()
        odd = [np.nan, np.inf, -np.inf, 1e308, 0.0, -1.0] if array.dtype.kind == "f" else [0, -1, 1, 2**31 - 1]
        with np.errstate(all="ignore"), contextlib.suppress(ValueError, OverflowError):
            array.flat[rng.randrange(array.size)] = rng.choice(odd)
    return array


def _rows_for(model):
    """Rows of the kinds that a model takes: tables, texts, or arrays."""
    steps = [step for _, step in flat_steps(model)]
    first = steps[0]
    if isinstance(first, ColumnTransformer):
        texts = columns_of(first)[1]
        values = {name: ["2020-01-01" if name in texts else 1.0] * 3 for name in first.feature_names_in_}
        has_documents = any(isinstance(columns, str) for *_, columns in first.transformers_)
        return [pd.DataFrame(values) if has_documents else pa.table(values)]
    if any(isinstance(step, (CountVectorizer, HashingVectorizer)) for step in steps):
        return [["some words", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""]]
    rng = np.random.default_rng(0)
    width = next(step.n_features_in_ for step in steps if hasattr(step, "n_features_in_"))
    sparse = sp.random_array((3, width), density=0.3, format="csr", rng=rng) if width < 10_000 else None
    return [] if sparse is None else [rng.normal(size=(3, width)), sparse]


def generate(rng):
    header, arrays = rng.choice(sources())
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if rng.random() < 0.6:
            *way, last = rng.choice(list(_indices(header)))
            at = functools.reduce(lambda value, key: value[key], way, header)
            if rng.random() < 0.15:
                del at[last]
            else:
                at[last] = copy.deepcopy(rng.choice(_JUNK))
        elif arrays:
            name = rng.choice(sorted(arrays))
            arrays[name] = np.ascontiguousarray(_other(rng, arrays[name]))
    if rng.random() < 0.1:
        text = mutated(rng, json.dumps(header).encode()).decode(errors="replace")
        metadata = {model_format._METADATA_KEY: f"{model_format._checksum(text, arrays)}\n{text}"}
        return model_format.to_safetensors(arrays, metadata)
    data = model_format.file_content(header, arrays)
    return mutated(rng, data) if rng.random() < 0.1 else data


def check(data):
    path = file("model.dimargin", data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model, _ = load_with_header(path)
        except ModelFileError as error:
            return check_refusal(error, path)
        for X in _rows_for(model):
            try:
                model.predict(X)
            except ValueError as error:  # numbers too large, sparse rows to centre, another format of dates
                text = str(error)
                assert any(word in text for word in ("too large", "center", "infinity", "NaN", "no date")), text
            except TypeError as error:
                text = str(error)  # dense rows are needed, scikit-learn or numpy says
                assert "parse" in text or "loop of ufunc" in text or "not supported for the input types" in text, text
        with contextlib.redirect_stdout(io.StringIO()):
            command.main(["info", str(path), "--json"], standalone_mode=False)
            command.main(["info", str(path)], standalone_mode=False)
