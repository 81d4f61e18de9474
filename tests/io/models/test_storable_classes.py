"""Every class that model files hold comes back as it was, in a new process, too."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import storable_models
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import dimargin as dm
from dimargin.io.models.storable_classes import STORABLE_CLASSES

ANSWER = """
import sys
import numpy as np, storable_models
import dimargin as dm

folder = sys.argv[1]
for name in storable_models.MODELS:
    np.savez(f"{folder}/{name}.npz", **storable_models.answers(name, dm.load(f"{folder}/{name}")))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the file of every model and what it says in a new process, and the models."""
    folder = tmp_path_factory.mktemp("models")
    models = {name: storable_models.fitted(name) for name in storable_models.MODELS}
    for name, model in models.items():
        dm.save(model, folder / name)
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, folder], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder, models


def classes_in(value):
    """Classes of all fitted estimators in a model."""
    if isinstance(value, BaseEstimator):
        yield type(value).__name__
        value = {**vars(value), **value.get_params(deep=False)}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for one in inner:
        yield from classes_in(one)


@pytest.mark.parametrize("name", STORABLE_CLASSES)
def test_predictions_after_load_in_a_new_process_are_equal_bit_for_bit(saved, name):
    folder, models = saved
    assert name in set(classes_in(models[name]))
    with np.load(folder / f"{name}.npz") as found:
        expected = storable_models.answers(name, models[name])
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert found[key].tobytes() == value.tobytes() and found[key].dtype == value.dtype


def test_the_page_names_every_class_around_a_machine():
    page = (Path(__file__).parents[3] / "docs" / "interoperability.md").read_text()
    assert [name for name, entry in STORABLE_CLASSES.items() if not entry.predicts and f"`{name}`" not in page] == []


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "part"])
def test_sums_are_rounded_as_before(layout, tmp_path):
    """Products of matrices are rounded according to the order of their entries in memory."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(80, 30)), rng.normal(size=(101, 30))
    model = make_pipeline(PCA(7), dm.SVMClassifier(random_state=0)).fit(X, X[:, 0] > 0)
    wide = rng.normal(size=(9, 40))
    model[0].components_ = {
        "C": np.ascontiguousarray(wide[:7, :30]), "F": np.asfortranarray(wide[:7, :30]), "reversed": wide[6::-1, :30],
        "part": wide[:7, 5:35],
    }[layout]  # fmt: skip
    dm.save(model, tmp_path / "m")
    assert dm.load(tmp_path / "m").decision_function(Z).tobytes() == model.decision_function(Z).tobytes()
