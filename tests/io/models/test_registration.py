"""Classes, functions and patterns of users in model files: registered, declared, and in other processes."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from storable_models import DENSE, LABELS, NEW, TEXTS
from tampering import array_of, tampered, told

import dimargin as dm
from dimargin.io.models import (
    Array,
    ModelFileError,
    named_values,
    register_function,
    register_step,
    registration,
    storable_classes,
)


class Shift(TransformerMixin, BaseEstimator):
    """A transformer with a value of every kind that can be declared."""

    def __init__(self, scale=1.0, power=1, name="x", keep=True, limit=None, inner=None):
        self.scale, self.power, self.name, self.keep, self.limit, self.inner = scale, power, name, keep, limit, inner

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.shift_, self.counts_ = X.mean(axis=0), {"rows": len(X), "share": 0.5}
        self.inner_ = self.inner.fit(X)
        return self

    def transform(self, X):
        return self.inner_.transform((X - self.shift_) * self.scale)


PARAMETERS = {"scale": float, "power": int, "name": str, "keep": bool, "limit": (float, None), "inner": object}
ATTRIBUTES = {"shift_": Array(("n_features_in_",)), "counts_": dict, "inner_": BaseEstimator}


@pytest.fixture(autouse=True)
def no_registrations(monkeypatch):
    monkeypatch.setattr(storable_classes, "REGISTERED", {})
    monkeypatch.setattr(registration, "REGISTERED", storable_classes.REGISTERED)
    monkeypatch.setattr(named_values, "_registered", {})


def shifted():
    return make_pipeline(Shift(2.0, inner=FunctionTransformer(np.cbrt)), dm.SVMClassifier()).fit(DENSE, LABELS)


def test_a_registered_class_comes_back(tmp_path):
    model = shifted()
    with pytest.raises(TypeError, match=r"cannot save the Shift 'shift'; model files hold .+ and transformers that"):
        dm.save(model, tmp_path / "m")
    register_step(Shift, PARAMETERS, ATTRIBUTES)
    dm.save(model, tmp_path / "m")
    again = dm.load(tmp_path / "m")
    assert again.decision_function(NEW["dense"]).tobytes() == model.decision_function(NEW["dense"]).tobytes()
    assert repr(again) == repr(model) and again[0].counts_ == {"rows": 60, "share": 0.5}
    storable_classes.REGISTERED.clear()
    with pytest.raises(ModelFileError, match="'Shift' is not a class of model files; register it"):
        dm.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (
            array_of("shift_", lambda a: a[:1]),
            r"shift_ of the Shift must be .* shape \(4\), got float64 of shape \(1,\)",
        ),
        (array_of("shift_", lambda a: a.astype(np.int64)), "shift_ of the Shift"),
        (told(shift_="x"), "shift_ of the Shift must be an array of finite numbers .*, got 'x'"),
        (told(counts_={"dict": [["rows", "many"]]}), "counts_ of the Shift must be a dictionary of texts to numbers"),
        (told(counts_={"dict": [[1, 2]]}), "counts_ of the Shift"),
        (told(inner_=1.0), "inner_ of the Shift must be a fitted estimator, got 1.0"),
        (told(inner_={"unfitted": "PCA", "parameters": {}}), "not fitted yet"),
        (told(other_=1.0), r"unknown attributes \['other_'\]"),
        (lambda h, a: h["steps"][0]["parameters"].update(scale="x"), "scale of the Shift must be a number, got 'x'"),
        (
            lambda h, a: h["steps"][0]["parameters"].update(power=True),
            "power of the Shift must be an integer, got True",
        ),
        (lambda h, a: h["steps"][0]["parameters"].update(keep=1), "keep of the Shift must be True or False, got 1"),
        (lambda h, a: h["steps"][0]["parameters"].update(limit="x"), "limit of the Shift must be a number or missing"),
        (lambda h, a: h["steps"][0]["parameters"].update(more=1), "a Shift has the parameters"),
        (lambda h, a: h["steps"][0]["parameters"].pop("name"), "a Shift has the parameters"),
    ],
)
def test_values_are_checked_as_they_were_declared(lie, reason, tmp_path):
    register_step(Shift, PARAMETERS, ATTRIBUTES)
    dm.save(shifted(), tmp_path / "m")
    tampered(tmp_path / "m", lie)
    with pytest.raises(ModelFileError, match=f"step 'shift': .*{reason}"):
        dm.load(tmp_path / "m")


def test_a_check_of_the_class_is_called(tmp_path):
    def check(step):
        if step.scale <= 0:
            raise ValueError("scale must be positive")

    register_step(Shift, PARAMETERS, ATTRIBUTES, check)
    model = shifted()
    dm.save(model, tmp_path / "m")
    model[0].scale = -1.0
    with pytest.raises(TypeError, match="the model cannot be saved: step 'shift': scale must be positive"):
        dm.save(model, tmp_path / "m")


class PCA(Shift):
    """Another class with a name that files hold."""


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ((3, {}, {}), TypeError, "kind must be a subclass of BaseEstimator with a method transform, got 3"),
        ((dm.SVMClassifier, {}, {}), TypeError, "with a method transform"),
        ((PCA, PARAMETERS, ATTRIBUTES), ValueError, "model files hold PCA without registration"),
        ((Shift, {"scale": float}, ATTRIBUTES), ValueError, r"parameters must declare \['inner', .*got \['scale'\]"),
        ((Shift, PARAMETERS | {"scale": 1.0}, ATTRIBUTES), ValueError, "scale of Shift must be declared by an Array"),
        ((Shift, PARAMETERS, {"shift_": (Array((2,)), list)}), ValueError, "shift_ of Shift must be declared"),
    ],
)
def test_registrations_are_checked(given, error, reason):
    with pytest.raises(error, match=reason):
        register_step(*given)


def test_arrays_of_objects_are_not_declared():
    with pytest.raises(ValueError, match="kinds must be letters of 'biufU', got 'O'"):
        Array((2,), kinds="O")


# ---- functions -------------------------------------------------------------------------------------------------------


def doubled(X):
    return np.hstack([X, X])


def test_a_registered_function_comes_back(tmp_path):
    model = make_pipeline(FunctionTransformer(doubled), dm.SVMClassifier()).fit(DENSE, LABELS)
    with pytest.raises(
        TypeError, match=r"functiontransformer\.func cannot be stored in a model file: <function doubled"
    ):
        dm.save(model, tmp_path / "m")
    register_function(doubled)
    dm.save(model, tmp_path / "m")
    again = dm.load(tmp_path / "m")
    assert again[0].func is doubled
    assert again.decision_function(NEW["dense"]).tobytes() == model.decision_function(NEW["dense"]).tobytes()
    named_values._registered.clear()
    with pytest.raises(ModelFileError, match=r"doubled' is not a function that model files may name; register it by"):
        dm.load(tmp_path / "m")


def test_texts_may_be_cleaned_by_a_registered_function(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer

    register_function(shortened, "mine.shortened")
    model = make_pipeline(FunctionTransformer(shortened), TfidfVectorizer(), dm.SVMClassifier()).fit(TEXTS, LABELS)
    dm.save(model, tmp_path / "m")
    assert dm.load(tmp_path / "m").predict(NEW["texts"]).tolist() == model.predict(NEW["texts"]).tolist()


def shortened(texts):
    return [text[:20] for text in texts]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("numpy.exp",), "function must be callable, got 'numpy.exp'"),
        ((lambda X: X,), "<lambda> has no name of its own; pass one"),
        ((doubled, "numpy.exp"), "numpy.exp needs no registration"),
    ],
)
def test_functions_need_a_name_of_their_own(given, reason):
    with pytest.raises(ValueError, match=reason):
        register_function(*given)


# ---- other processes -------------------------------------------------------------------------------------------------

PLUGIN = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from dimargin.io.models import Array, register_function, register_pattern, register_step

def tripled(X):
    return 3 * X

class Centred(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_, self.mean_ = X.shape[1], X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_

def register():
    register_step(Centred, parameters={}, attributes={"mean_": Array(("n_features_in_",))})
    register_function(tripled)
"""

TRAIN = """
import sys
import numpy as np, dimargin as dm, plugin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
X = np.random.default_rng(0).normal(size=(40, 3))
plugin.register()
model = make_pipeline(plugin.Centred(), FunctionTransformer(plugin.tripled), dm.SVMClassifier())
dm.save(model.fit(X, X[:, 0] > 0), "m.dimargin")
np.savetxt("rows.csv", X, delimiter=",", header="a,b,c", comments="")
np.savetxt("labels", model.predict(X), fmt="%s")
"""


def test_a_distribution_registers_for_commands_too(tmp_path):
    def run(*arguments):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, env=environment
        )

    (tmp_path / "plugin.py").write_text(PLUGIN)
    assert run("-c", textwrap.dedent(TRAIN)).returncode == 0
    refused = run("-m", "dimargin", "predict", "m.dimargin", "rows.csv")
    assert refused.returncode == 1 and "'Centred' is not a class of model files; register it" in refused.stderr
    (tmp_path / "plugin-1.dist-info").mkdir()
    (tmp_path / "plugin-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (tmp_path / "plugin-1.dist-info" / "entry_points.txt").write_text(
        "[dimargin.registrations]\nmine = plugin:register\n"
    )
    predicted = run("-m", "dimargin", "predict", "m.dimargin", "rows.csv", "--quiet")
    assert predicted.stdout.split() == (tmp_path / "labels").read_text().split(), predicted.stderr
