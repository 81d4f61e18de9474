"""Conversion of fitted machines to LIBSVM's models."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.svm
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import KernelMarginClassifier, MulticlassKernelClassifier, SVMRegressor
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.io.libsvm.libsvm_model import (
    NO_LABELS,
    Expansion,
    LibsvmModel,
    csr_rows,
    libsvm_kernel,
    one_vs_one,
    whole_labels,
)
from dimargin.io.libsvm.text_model import write_libsvm_model
from dimargin.kernels.functions import Kernel
from dimargin.system.arrays import Indices

_OF_SKLEARN = (sklearn.svm.SVC, sklearn.svm.NuSVC, sklearn.svm.SVR, sklearn.svm.NuSVR, sklearn.svm.OneClassSVM)
_IS_FUNCTION = "a kernel that is a function has no LIBSVM form; LIBSVM knows linear, poly, rbf, precomputed"


def libsvm_model(estimator: Any) -> LibsvmModel:
    """Return the LIBSVM form of a fitted machine; parameters and errors are those of `to_libsvm`."""
    if isinstance(estimator, OneVsOneClassifier):
        check_is_fitted(estimator)
        return _of_pairs(estimator)
    if isinstance(estimator, Pipeline):
        raise TypeError(
            "LIBSVM models do not store scaling: pass only the machine, pipeline[-1], and scale rows to predict as the "
            "pipeline does"
        )
    if not isinstance(estimator, (KernelMarginClassifier, SVMRegressor, *_OF_SKLEARN)):
        kind = type(estimator).__name__
        raise TypeError(
            f"expected a kernel machine of dimargin or sklearn.svm, got {kind}; to_liblinear writes linear ones"
        )
    check_is_fitted(estimator)
    if isinstance(estimator, _OF_SKLEARN):
        return _of_sklearn(estimator)
    if isinstance(estimator, SVMRegressor):
        kernel, vectors, zero_based = _expansion(estimator, estimator.support_)
        rho, counts = 0.0 - estimator.intercept_, np.array([vectors.shape[0], 0])
        dual, kernel = np.array(estimator.dual_coef_), libsvm_kernel(kernel)
        return LibsvmModel(kernel, NO_LABELS, rho, counts, dual, vectors, zero_based, "epsilon_svr")
    if len(estimator.classes_) > 2 and not _is_of_pairs(estimator):
        name, n_classes = type(estimator).__name__, len(estimator.classes_)
        raise ValueError(
            f"{name} was fitted one-vs-rest for {n_classes} classes, but LIBSVM models are one-vs-one; fit it with "
            f"multi_class='one_vs_one'"
        )
    kernel, vectors, zero_based = _expansion(estimator, estimator.support_)
    if len(estimator.classes_) > 2:
        return LibsvmModel(
            kernel=libsvm_kernel(kernel),
            labels=whole_labels(estimator.classes_),
            # A positive decision value means the second class of a pair here, and the first in
            # LIBSVM.
            rho=np.array(estimator.intercept_),
            n_support=estimator.n_support_.astype(np.int64),
            coefficients=0.0 - estimator.dual_coef_,
            support_vectors=vectors,
            zero_based=zero_based,
        )
    pair = Expansion(np.arange(vectors.shape[0]), estimator.dual_coef_[0], -float(estimator.intercept_[0]))
    # The class of positive decision values comes first.
    return one_vs_one(kernel, estimator.classes_[::-1], vectors, [pair], zero_based)


def _of_sklearn(estimator: Any) -> LibsvmModel:
    """Return the form of one of scikit-learn's classes or of ours by the same name, which have LIBSVM's signs."""
    if callable(estimator.kernel):
        raise ValueError(_IS_FUNCTION)
    if estimator.kernel == "sigmoid":
        raise ValueError("kernel='sigmoid' is not positive semi-definite, and models of LIBSVM with it are not written")
    labels, counts, dual = NO_LABELS, np.array([len(estimator.support_), 0]), estimator._dual_coef_
    if hasattr(estimator, "classes_"):
        labels, counts = whole_labels(estimator.classes_), estimator.n_support_.astype(np.int64)
    kernel, vectors = None, estimator.support_[:, None] + 1
    if estimator.kernel != "precomputed":
        kernel = Kernel(estimator.kernel, float(estimator._gamma), estimator.degree, float(estimator.coef0))
        vectors = estimator.support_vectors_
    dual = dual.toarray() if sp.issparse(dual) else np.array(dual)
    sigmoids = [estimator._probA, estimator._probB] if len(estimator._probA) else []
    return LibsvmModel(
        kernel, labels, 0.0 - estimator._intercept_, counts, dual, csr_rows(vectors), kernel is None, estimator._impl,
        *sigmoids,
    )  # fmt: skip


def _is_of_pairs(machine: KernelMarginClassifier) -> bool:
    return isinstance(machine, MulticlassKernelClassifier) and machine._is_one_vs_one


def _expansion(machine: KernelMachine, indices: Indices) -> tuple[Kernel | None, Any, bool]:
    """Return the kernel, the support vectors, and whether their first column is feature 0.

    For a precomputed kernel, the kernel is None and support vectors are indices in the kernel
    matrix.
    """
    if machine._router is not None:
        raise ValueError(
            "a model that predicts by clusters has no LIBSVM form, which is a single decision function; fit with "
            "stop_level=0 or strategy=DivideAndConquer(prediction='naive')"
        )
    kernel = machine._transform.kernel
    if isinstance(kernel, Kernel):
        return kernel, csr_rows(machine.support_vectors_), False
    if kernel.function is not None:
        raise ValueError(_IS_FUNCTION)
    return None, csr_rows(indices[:, None] + 1), True


def _of_pairs(estimator: OneVsOneClassifier) -> LibsvmModel:
    machines = estimator.estimators_
    for machine in machines:
        if not isinstance(machine, KernelMarginClassifier):
            raise TypeError(f"expected pairs of kernel machines of dimargin, got {type(machine).__name__}")
    # With a precomputed kernel, every machine saw only the values of its own rows.
    rows = estimator.pairwise_indices_ or [None] * len(machines)
    parts = [
        _expansion(machine, machine.support_ if own is None else own[machine.support_])
        for machine, own in zip(machines, rows, strict=True)
    ]
    kernels = list(dict.fromkeys(_without_unused_gamma(kernel) for kernel, _, _ in parts))
    if len(kernels) > 1:
        raise ValueError(
            f"the pairs' kernels differ ({kernels[0]}, {kernels[1]}), but LIBSVM models have one; set gamma to a number"
        )
    vectors = csr_rows(sp.vstack([own for _, own, _ in parts]))
    known: dict[tuple[bytes, bytes], int] = {}  # A support vector of several pairs is stored once.
    same = np.array([known.setdefault(_content(vectors, k), k) for k in range(vectors.shape[0])], dtype=np.int64)
    ends = np.cumsum([len(machine.support_) for machine in machines])
    pairs = [
        # The positive class of a machine is the second of its pair.
        Expansion(own, -machine.dual_coef_[0], float(machine.intercept_[0]))
        for machine, own in zip(machines, np.split(same, ends[:-1]), strict=True)
    ]
    return one_vs_one(kernels[0], estimator.classes_, vectors, pairs, zero_based=parts[0][2])


def _without_unused_gamma(kernel: Kernel | None) -> Kernel | None:
    """Return a linear kernel with a fixed gamma, since pairs may differ in the unused one."""
    return replace(kernel, gamma=1.0) if kernel is not None and kernel.name == "linear" else kernel


def _content(X: Any, row: int) -> tuple[bytes, bytes]:
    part = slice(X.indptr[row], X.indptr[row + 1])
    return X.indices[part].tobytes(), X.data[part].tobytes()


def to_libsvm(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted machine as a LIBSVM text model, for svm-predict and other programs.

    A machine with a loss that LIBSVM does not have is written as its kernel expansion, with
    `svm_type c_svc` or `epsilon_svr`. Column j of X becomes feature j + 1, and numbers are written without loss.
    With a precomputed kernel, support vectors are given by their indices among the training rows,
    counted from one.

    Parameters
    ----------
    estimator : ODMClassifier, SVMClassifier, OneVsOneClassifier of these, SVMRegressor, or a class of `dimargin.svm`
        SVC, NuSVC, SVR, NuSVR and OneClassSVM of `dimargin.svm` or `sklearn.svm` keep their type and, with
        ``probability=True``, the parameters of probabilities. Classifiers must be fitted on integer labels; for more
        than two classes one-vs-one, which is the default of `multi_class`, or by scikit-learn's OneVsOneClassifier. For
        two classes of dimargin's own classifiers, a positive decision value stays positive and means the first label of
        the file. For more, LIBSVM breaks ties of votes by the order of the classes, not by the decision values.
    path : path-like
        An existing file is replaced, either completely or not at all. The file contains the support
        vectors, which are training rows. So a new file is readable only by its owner (mode 0600);
        an existing one keeps its mode.

    Raises
    ------
    ValueError
        If LIBSVM's format cannot represent the model: the Laplacian or sigmoid kernel or a function as
        kernel, one-vs-rest with more than two classes, labels that are not integers, pairs with different
        kernels.
    TypeError
        For another kind of estimator, and for a pipeline, because the format does not store
        scaling.
    sklearn.exceptions.NotFittedError
    OSError
        If the file cannot be written.

    See Also
    --------
    from_libsvm : Read such a file.
    save : Write dimargin's own format, which also stores scaling and certificate.

    Examples
    --------
    Several classes:

    >>> import dimargin as dm
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = Path(mkdtemp()) / "iris.model"
    >>> dm.to_libsvm(dm.SVMClassifier(gamma=0.25).fit(X, y), path)
    >>> path.read_text().splitlines()[:4]
    ['svm_type c_svc', 'kernel_type rbf', 'gamma 0.25', 'nr_class 3']
    """
    write_libsvm_model(libsvm_model(estimator), path)
