"""Searches in model files: everything that was found comes back, and what cannot be stored is named."""

import json

import numpy as np
import pytest
import storable_models
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, PredefinedSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from storable_models import DENSE, LABELS, NEW

import dimargin as dm
from dimargin.io.models import model_format


def plain(value):
    """A value as text; estimators by their parameters."""
    if isinstance(value, np.ma.MaskedArray):
        return [str(value.dtype), plain(value.tolist())]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return repr(value.item() if isinstance(value, np.generic) else value)


@pytest.mark.parametrize("name", ["GridSearchCV", "HalvingGridSearchCV", "ODMClassifierCV", "SVMClassifierCV"])
def test_what_a_search_has_found_comes_back(name, tmp_path):
    model = storable_models.fitted(name)
    dm.save(model, tmp_path / "m")
    search, again = (one if name in str(type(one)) else one[-1] for one in (model, dm.load(tmp_path / "m")))
    for key, value in vars(search).items():
        if not key.startswith("_") and key not in ("best_estimator_", "cv", "scorer_"):
            assert plain(getattr(again, key)) == plain(value), key
    assert type(again) is type(search) and repr(again) == repr(search)
    assert repr(again.cv) == repr(search.cv) and repr(again.best_estimator_) == repr(search.best_estimator_)
    assert getattr(again, "scorer_", None).__class__ is getattr(search, "scorer_", None).__class__
    first = (tmp_path / "m").read_bytes()
    dm.save(dm.load(tmp_path / "m"), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == first


def grid(**others):
    return GridSearchCV(dm.SVMClassifier(), {"C": [0.1, 10.0]}, **others)


@pytest.mark.parametrize(
    ("options", "metric"),
    [
        ({"scoring": "balanced_accuracy"}, None),
        ({"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}, "f1_macro"),
        ({"scoring": {"a": "accuracy", "f": "f1_macro"}, "refit": "f", "return_train_score": True}, "f"),
        ({"cv": PredefinedSplit(np.arange(60) % 3)}, None),
        ({"cv": ShuffleSplit(2, random_state=0)}, None),
        ({"cv": [(np.arange(40), np.arange(40, 60))]}, None),
    ],
)
def test_a_loaded_search_scores_as_before(options, metric, tmp_path):
    search = grid(**options).fit(DENSE, LABELS)
    dm.save(search, tmp_path / "m")
    again = dm.load(tmp_path / "m")
    labels = np.resize(["spam", "ham"], 20)
    assert again.score(NEW["dense"], labels) == search.score(NEW["dense"], labels)
    assert again.multimetric_ == (metric is not None) and again.best_index_ == search.best_index_
    assert again.fit(DENSE, LABELS).best_params_ == search.best_params_


def test_a_file_neither_holds_nor_chooses_the_folder_of_a_pipeline(tmp_path):
    cached = make_pipeline(StandardScaler(), dm.SVMClassifier(), memory=str(tmp_path / "cache"))
    dm.save(GridSearchCV(cached, {"svmclassifier__C": [1.0]}).fit(DENSE, LABELS), tmp_path / "m")
    again = dm.load(tmp_path / "m")
    assert again.best_estimator_.memory is None and again.estimator.memory is None
    assert "cache" not in json.dumps(model_format.read_raw(tmp_path / "m")[0])


def test_a_search_around_a_fitted_machine_holds_it_once(tmp_path):
    machine = dm.SVMClassifier().fit(DENSE, LABELS)
    dm.save(GridSearchCV(machine, {"C": [1.0]}).fit(DENSE, LABELS), tmp_path / "m")
    arrays = model_format.read_raw(tmp_path / "m")[1]
    assert sum(name.endswith("support_vectors_") for name in arrays) == 1
    assert not hasattr(dm.load(tmp_path / "m").estimator, "support_vectors_")


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        (grid(refit=False), r"cannot save the GridSearchCV 'machine': the GridSearchCV has no best estimator"),
        (grid(refit=lambda results: 0), "chose it by a function"),
        (grid(scoring=make_scorer(f1_score, pos_label="ham")), "scoring of the GridSearchCV must be None or names of"),
        (grid(cv=((a, b) for a, b in [(np.arange(40), np.arange(40, 60))])), r"machine\.cv cannot be stored"),
        (
            GridSearchCV(make_pipeline(PCA(2), dm.SVMClassifier()), {"pca__random_state": [np.random.RandomState(0)]}),
            r"machine\.param_grid.* cannot be stored in a model file: RandomState",
        ),
        (
            GridSearchCV(
                make_pipeline(StandardScaler(), dm.SVMClassifier(), memory="x"), {"memory": [None], "verbose": [False]}
            ),
            "chooses the memory of a pipeline",
        ),
    ],
)
def test_what_cannot_be_stored_of_a_search_is_named(search, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = search.fit(DENSE, LABELS)
    with pytest.raises(TypeError, match=reason):
        dm.save(fitted, tmp_path / "m")
    assert not (tmp_path / "m").exists()
