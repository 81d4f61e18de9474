"""LIBSVM itself, by its own Python package, for models to be handed to and taken from."""

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp


def svm():
    """LIBSVM's module of functions."""
    return pytest.importorskip("libsvm.svmutil", reason="libsvm-official is a test dependency on Linux only")


def official(path, X):
    """What LIBSVM says to rows with a text model: labels, and decision values of every pair."""
    labels, values = predicted(path, X)
    return labels.astype(int), values


def predicted(path, X, probabilities=False):
    """LIBSVM's predictions with a text model, which may be numbers, and decision values or probabilities.

    The functions in C are called, because the package's own `svm_predict` reserves memory for a single decision value
    of nu-SVC, however many classes there are.
    """
    from libsvm.svm import gen_svm_nodearray, kernel_names, libsvm

    model = svm().svm_load_model(str(path))
    assert model is not None
    n_classes, is_square = model.get_nr_class(), model.param.kernel_type == kernel_names.PRECOMPUTED
    found = (ctypes.c_double * (n_classes if probabilities else n_classes * (n_classes - 1) // 2))()
    predict = libsvm.svm_predict_probability if probabilities else libsvm.svm_predict_values
    labels, values = [], []
    for row in X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float):
        labels.append(predict(model, gen_svm_nodearray(row, isKernel=is_square)[0], found))
        values.append(list(found))
    return np.array(labels), np.array(values)


def trained(X, y, flags):
    """LIBSVM's model, and what it prints while it trains."""
    from libsvm.svm import PRINT_STRING_FUN

    parameters, printed = svm().svm_parameter(list(flags)), []
    parameters.print_func = PRINT_STRING_FUN(lambda text: printed.append(text.decode()))
    model = svm().svm_train(svm().svm_problem(np.asarray(y, dtype=float), np.asarray(X, dtype=float)), parameters)
    return model, "".join(printed)
