"""Random Fourier features as a transformer: scikit-learn's checks, files, and a kernel machine of sites."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_circles
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tampering import tampered

from dimargin import GossipSVMClassifier, SVMClassifier, load, save
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.io.models.model_format import ModelFileError


@parametrize_with_checks([FourierFeatures(n_components=20)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_a_kernel_machine_of_sites_and_its_file(tmp_path):
    """Circles, which no line separates, of sites that have one class each; the file predicts alone."""
    X, y = make_circles(300, noise=0.1, factor=0.4, random_state=0)
    sites = GossipSVMClassifier(n_sites=4, alpha=1e-3, shards="sorted", tol=1e-2, random_state=0)
    machine = make_pipeline(MinMaxScaler(), FourierFeatures(8.0, 50, 5), sites)
    machine.fit(X[:200], y[:200])
    exact = make_pipeline(MinMaxScaler(), SVMClassifier(5.0, gamma=8.0, random_state=0)).fit(X[:200], y[:200])
    assert machine.score(X[200:], y[200:]) >= exact.score(X[200:], y[200:]) - 0.01 > 0.9
    save(machine, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.decision_function(X), machine.decision_function(X))
    assert again[1].get_params() == machine[1].get_params()


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"n_components": 51}, "FourierFeatures"),
        ({"n_components": 0}, "n_components must be a positive integer, got 0"),
        ({"gamma": 0.5, "random_state": "x"}, None),
    ],
)
def test_files_that_do_not_fit(tmp_path, change, refused):
    X, y = make_circles(100, noise=0.1, factor=0.4, random_state=0)
    sites = GossipSVMClassifier(n_sites=2, alpha=1e-2, tol=0.1, random_state=0)
    machine = make_pipeline(FourierFeatures(8.0, 50, 5), sites).fit(X, y)
    save(machine, tmp_path / "model")
    tampered(tmp_path / "model", lambda header, arrays: header["steps"][0]["parameters"].update(change))
    if refused is not None:
        with pytest.raises(ModelFileError, match=refused):
            load(tmp_path / "model")
        with pytest.raises(TypeError, match=refused):
            save(machine.set_params(fourierfeatures__n_components=change["n_components"]), tmp_path / "model")
    else:  # what the features are of is in the frequencies
        assert_array_equal(load(tmp_path / "model").decision_function(X), machine.decision_function(X))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": 0.0}, "gamma must be"), ({"n_components": 7.5}, "n_components must be"),
        ({"n_components": 0}, "n_components must be"), ({"random_state": -1}, "random_state must be"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        FourierFeatures(**options).fit(np.ones((2, 2)))
