"""LIBSVM itself, by its own Python package, for models to be handed to and taken from."""

import numpy as np
import pytest
import scipy.sparse as sp


def svm():
    """LIBSVM's module of functions."""
    return pytest.importorskip("libsvm.svmutil", reason="libsvm-official is a test dependency on Linux only")


def official(path, X):
    """What LIBSVM says to rows with a text model: labels, and decision values of every pair."""
    model = svm().svm_load_model(str(path))
    assert model is not None
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    labels, _, values = svm().svm_predict([0] * len(X), X, model, "-q")
    return np.array(labels, dtype=int), np.array(values)
