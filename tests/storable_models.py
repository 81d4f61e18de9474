"""A model for every class that model files hold, with rows that are the same in every process."""

import warnings

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import loguniform, randint
from sklearn.base import is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold, chi2, mutual_info_classif
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV, RepeatedStratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures, CategoryEncoder, FourierFeatures, SparseScaler

N = 60
RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(N, 4))
TARGETS = DENSE[:, 0] + 0.3 * RNG.normal(size=N)
LABELS = np.where(TARGETS > 0, "ham", "spam")
SPARSE = sp.csr_array(np.where(np.abs(DENSE) < 0.5, 0.0, np.abs(DENSE)))
WORDS = {"ham": ["meeting", "Café", "naïve plan", "report"], "spam": ["prize", "café", "WIN money", "click"]}
TEXTS = [" ".join(RNG.choice([*WORDS[label], "the", "one more"], 5)) for label in LABELS]
TABLE = pd.DataFrame(
    {
        "size": [None, *DENSE[1:, 0]],
        "job": RNG.choice(["nurse", "smith"], N),
        "since": pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"),
        "income": np.exp(DENSE[:, 1]),
        "height": DENSE[:, 2],
    }
)
ROWS = {"dense": DENSE, "sparse": SPARSE, "texts": TEXTS, "table": TABLE}
NEW = {
    "dense": RNG.normal(size=(20, 4)),
    "sparse": sp.csr_array(np.maximum(RNG.normal(size=(20, 4)), 0)),
    "texts": ["a CAFÉ with a prize", "words that are new", "", "meeting meeting one more"],
    "table": TABLE.sample(20, random_state=0),
}


def svm():
    return dm.SVMClassifier(random_state=0)


def before(*steps):
    return make_pipeline(*steps, svm())


def columns():
    return ColumnTransformer(
        [
            ("size", SimpleImputer(strategy="median"), ["size"]),
            ("job", OneHotEncoder(handle_unknown="ignore"), ["job"]),
            ("since", CalendarFeatures(), ["since"]),
            ("income", FunctionTransformer(np.log1p), ["income"]),
            ("robust", RobustScaler(), ["height", "income"]),
            ("main", PCA(1), ["height", "income"]),
        ]
    )


def searched():
    """A search over all that a grid may hold."""
    model = Pipeline([("scale", StandardScaler()), ("select", SelectKBest()), ("machine", svm())])
    grid = [
        {"scale": [RobustScaler(), "passthrough"], "select__k": [2, "all"]},
        {"select__score_func": [mutual_info_classif], "machine__C": np.array([0.5, 1.0]), "select__k": [3]},
        {"machine": [dm.ODMClassifier(random_state=0)], "machine__class_weight": [None, {"ham": 2.0}]},
    ]
    return GridSearchCV(model, grid, cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0))


MODELS = {
    "ODMClassifier": (dm.ODMClassifier, "dense"),
    "SVMClassifier": (svm, "sparse"),
    "LinearODMClassifier": (dm.LinearODMClassifier, "dense"),
    "LinearSVMClassifier": (lambda: dm.LinearSVMClassifier(random_state=0), "sparse"),
    "SVMRegressor": (lambda: dm.SVMRegressor(random_state=0), "dense"),
    "LinearSVMRegressor": (lambda: dm.LinearSVMRegressor(random_state=0), "sparse"),
    "CoreSetSVMClassifier": (dm.CoreSetSVMClassifier, "dense"),
    "GossipSVMClassifier": (lambda: dm.GossipSVMClassifier(n_sites=2, max_iter=3, random_state=0), "dense"),
    "CoreSetSVDD": (dm.CoreSetSVDD, "dense"),
    "OneClassCoreSetSVM": (dm.OneClassCoreSetSVM, "dense"),
    "CalibratedClassifierCV": (
        lambda: make_pipeline(
            MinMaxScaler(),
            CalibratedClassifierCV(make_pipeline(StandardScaler(), svm()), method="isotonic", cv=2),
        ),
        "dense",
    ),
    "ODMClassifierCV": (lambda: dm.ODMClassifierCV(cv=2, max_widenings=0, random_state=0), "dense"),
    "SVMClassifierCV": (
        lambda: make_pipeline(
            PCA(2), dm.SVMClassifierCV(dm.SVMClassifier(loss="squared_hinge"), {"C": [1, 10]}, scoring="f1_macro")
        ),
        "dense",
    ),
    "LinearSVMClassifierCV": (
        lambda: make_pipeline(
            StandardScaler(),
            dm.LinearSVMClassifierCV(np.array([0.1, 1.0]), 2, "roc_auc", store_path=True, random_state=0),
        ),
        "dense",
    ),
    "LinearODMClassifierCV": (lambda: dm.LinearODMClassifierCV([1e2, 1e4], cv=2, random_state=0), "sparse"),
    "GridSearchCV": (searched, "dense"),
    "RandomizedSearchCV": (
        lambda: RandomizedSearchCV(
            before(PCA()),
            {"pca__n_components": randint(1, 4), "svmclassifier__C": loguniform(0.1, b=10.0), "pca__whiten": [True]},
            n_iter=4,
            cv=2,
            random_state=0,
        ),
        "dense",
    ),
    "HalvingGridSearchCV": (
        lambda: make_pipeline(MaxAbsScaler(), HalvingGridSearchCV(svm(), {"C": [0.1, 1.0, 10.0]}, random_state=0)),
        "sparse",
    ),
    "Pipeline": (lambda: before(make_pipeline(StandardScaler(), None, PCA(2)), "passthrough"), "dense"),
    "MinMaxScaler": (lambda: before(MinMaxScaler()), "dense"),
    "StandardScaler": (lambda: before(StandardScaler()), "dense"),
    "MaxAbsScaler": (lambda: before(MaxAbsScaler()), "sparse"),
    "RobustScaler": (lambda: before(RobustScaler(unit_variance=True)), "dense"),
    "QuantileTransformer": (lambda: before(QuantileTransformer(n_quantiles=20, random_state=0)), "dense"),
    "CalendarFeatures": (lambda: before(columns()), "table"),
    "FourierFeatures": (lambda: before(FourierFeatures(n_components=20, random_state=0)), "dense"),
    "SparseScaler": (lambda: before(SparseScaler()), "sparse"),
    "PCA": (lambda: before(PCA(3, whiten=True)), "dense"),
    "TruncatedSVD": (lambda: before(TruncatedSVD(2, random_state=0)), "sparse"),
    "Nystroem": (lambda: before(Nystroem("poly", degree=2, gamma=0.5, n_components=20, random_state=0)), "sparse"),
    "SelectKBest": (lambda: before(SelectKBest(chi2, k=2)), "sparse"),
    "SelectPercentile": (lambda: before(SelectPercentile(percentile=50)), "dense"),
    "VarianceThreshold": (lambda: before(VarianceThreshold(0.9)), "dense"),
    "FunctionTransformer": (lambda: before(FunctionTransformer(np.cbrt, inverse_func=np.square)), "dense"),
    "CountVectorizer": (lambda: before(CountVectorizer(min_df=2), TfidfTransformer(use_idf=False)), "texts"),
    "TfidfTransformer": (lambda: before(TfidfTransformer(sublinear_tf=True)), "sparse"),
    "TfidfVectorizer": (
        lambda: before(TfidfVectorizer(ngram_range=(1, 2), stop_words=["the"], dtype=np.float32), SelectKBest(k=9)),
        "texts",
    ),
    "HashingVectorizer": (lambda: before(HashingVectorizer(n_features=2**20, analyzer="char_wb")), "texts"),
    "ColumnTransformer": (lambda: before(columns()), "table"),
    "SimpleImputer": (lambda: before(SimpleImputer(add_indicator=True)), "dense"),
    "OneHotEncoder": (lambda: before(columns(), StandardScaler(with_mean=False)), "table"),
    "CategoryEncoder": (
        lambda: before(*map(FunctionTransformer, (np.tanh, np.rint)), CategoryEncoder(handle_unknown="ignore")),
        "dense",
    ),
}


def fitted(name):
    """Return the fitted model of a class."""
    make, rows = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few passes, words that are left out, and few rows
        model = make()
        return model.fit(ROWS[rows], TARGETS if is_regressor(model) else LABELS)


def values(model, X):
    """Return the predictions of a regressor; of others the probabilities if they have them, else decision values."""
    if is_regressor(model):
        return model.predict(X)
    return (model.predict_proba if hasattr(model, "predict_proba") else model.decision_function)(X)


def answers(name, model):
    """Return what a model predicts for new rows."""
    X = NEW[MODELS[name][1]]
    labels = np.resize(["ham", "spam"], model.predict(X).shape)
    return {"labels": model.predict(X).astype(str), "values": values(model, X)} | (
        {"score": np.float64(model.score(X, labels))} if hasattr(model, "classes_") else {}
    )
