"""LIBLINEAR itself, by its own Python package, for models to be handed to and taken from."""

import numpy as np
import pytest
import scipy.sparse as sp


def liblinear():
    """LIBLINEAR's module of functions."""
    return pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")


def official(path, X):
    """Return the labels and decision values that LIBLINEAR computes for rows with a text model."""
    model = liblinear().load_model(str(path))
    assert model is not None
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    labels, _, values = liblinear().predict([0] * len(X), X, model, "-q")
    return np.array(labels, dtype=int), np.array(values)


def train(path, X, y, flags):
    """Write LIBLINEAR's model of the rows."""
    model = liblinear().train(np.asarray(y, dtype=float), np.asarray(X, dtype=float), f"{flags} -q")
    liblinear().save_model(str(path), model)
