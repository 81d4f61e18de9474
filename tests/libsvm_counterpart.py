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


def trained(X, y, flags):
    """LIBSVM's model, and what it prints while it trains."""
    from libsvm.svm import PRINT_STRING_FUN

    parameters, printed = svm().svm_parameter(list(flags)), []
    parameters.print_func = PRINT_STRING_FUN(lambda text: printed.append(text.decode()))
    model = svm().svm_train(svm().svm_problem(np.asarray(y, dtype=float), np.asarray(X, dtype=float)), parameters)
    return model, "".join(printed)
