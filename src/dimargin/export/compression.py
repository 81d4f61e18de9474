"""Copies of kernel machines with fewer support vectors."""

from __future__ import annotations

from copy import deepcopy
from math import ceil
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from dimargin.estimators.input_checks import check_number
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.export.plain_model import parts_of, plain_machine
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.one_vs_one import pair_numbers, pairs_of
from dimargin.problems.one_vs_rest import codes_of_labels
from dimargin.system.arrays import Floats, Indices


def compress(estimator: Any, size: float, X: Any = None, y: Any = None) -> tuple[Any, dict[str, float]]:
    """Return a copy of a kernel machine with fewer support vectors, and what it loses.

    Support vectors are chosen greedily. Then every decision function is projected onto their span
    in the kernel's space, that of a pair of classes onto the vectors of these classes.

    Parameters
    ----------
    estimator : SVMClassifier, ODMClassifier, CoreSetSVMClassifier or SVMRegressor, also in a pipeline
    size : int or float
        Number of support vectors, or below 1 their share.
    X, y : rows of shape (n, n_features) and labels or targets of shape (n,), default=None
        Data on which the loss is measured.

    Returns
    -------
    machine : copy of the estimator
        ``certificate_`` is "before_compression"; the gap is still that of `estimator`.
    report : dict
        ``support_vectors`` before, ``kept``, and ``bound``: a decision value of a row x, with pairs
        that of a pair, changes by at most bound times ``sqrt(k(x, x))``. With X, ``largest_change``
        of a decision value; with y, too, ``accuracy_before`` and ``accuracy_after``, for a regressor
        ``r2_before`` and ``r2_after``.

    Raises
    ------
    TypeError, ValueError, sklearn.exceptions.NotFittedError
        For a linear or calibrated machine, one of `dimargin.svm`, one that cannot be exported, and
        `size` out of range.

    Examples
    --------
    >>> import dimargin as dm
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> small, report = dm.compress(dm.SVMClassifier(gamma=2.0).fit(X[:500], y[:500]), 30, X[500:], y[500:])
    >>> len(small.support_), report["accuracy_after"] > report["accuracy_before"] - 0.01
    (30, True)
    """
    check_number("size", size, 0, whole=not isinstance(size, float) or size >= 1)
    copy = deepcopy(estimator)
    _, machine, around = parts_of(copy)
    plain = plain_machine(machine)
    if around is not None or plain.kernel.name == "linear" or not isinstance(machine, KernelMachine):
        raise ValueError("cannot compress a linear or calibrated machine, or one of dimargin.svm or scaled targets")
    signed, n_vectors, is_regressor = plain.coefficients, len(plain.vectors), not is_classifier(machine)
    numbers = np.arange(1 if is_regressor else len(machine.classes_))
    kernel, is_pairs = machine._kernel_with(machine.support_vectors_), plain.pair_scores is not None
    values = kernel.multiply(np.arange(n_vectors), signed)
    n_kept = min(n_vectors, ceil(size if size >= 1 else size * n_vectors))
    chosen = _chosen(kernel, plain.kernel.with_itself(plain.vectors), values.copy(), n_kept)
    # Vectors of pairs are stored by class; others are counted for the class that they support most.
    codes = np.repeat(numbers, machine.n_support_) if is_pairs or is_regressor else codes_of_labels(signed)
    found = np.zeros((len(values), len(chosen)))
    for q, own in enumerate(pairs_of(len(numbers)) if is_pairs else [numbers] * len(values)):
        places = np.flatnonzero(np.isin(codes[chosen], own))
        gram, wanted = kernel.values(chosen[places], chosen[places]), values[q, chosen[places]]
        found[q, places] = np.linalg.lstsq(gram, wanted, rcond=1e-12)[0]
    squares = (signed * values).sum(axis=1) - (found * values[:, chosen]).sum(axis=1)
    slots = found[pair_numbers(len(numbers))[codes[chosen]].T, np.arange(len(chosen))] if is_pairs else found
    machine.dual_coef_, machine.certificate_ = np.ascontiguousarray(slots), "before_compression"
    machine.support_, machine.support_vectors_ = machine.support_[chosen], machine.support_vectors_[chosen]
    machine.n_support_ = np.bincount(codes[chosen], minlength=len(numbers)).astype(np.int32)
    report = {"support_vectors": n_vectors, "kept": len(chosen), "bound": float(squares.max().clip(0)) ** 0.5}
    if X is not None:
        decide = "predict" if is_regressor else "decision_function"
        report["largest_change"] = float(np.abs(getattr(estimator, decide)(X) - getattr(copy, decide)(X)).max())
    if X is not None and y is not None:
        score, models = "r2" if is_regressor else "accuracy", {"before": estimator, "after": copy}
        report |= {f"{score}_{when}": float(model.score(X, y)) for when, model in models.items()}
    return copy, report


def _chosen(kernel: KernelMatrix, diagonal: Floats, rest: Floats, n: int) -> Indices:
    """Return up to n indices by a pivoted Cholesky factorisation; `rest` are values of the functions, overwritten."""
    columns, left, chosen = np.zeros((n, len(diagonal))), diagonal.copy(), list[int]()
    for k in range(n):
        # Each vector reduces the squared distances from the projections by this much.
        gains = np.divide((rest**2).sum(axis=0), left, out=np.zeros_like(left), where=left > 1e-10 * diagonal)
        if gains[best := int(gains.argmax())] <= 0:
            break
        columns[k] = kernel.values(np.arange(len(left)), np.array([best]))[:, 0] - columns[:k, best] @ columns[:k]
        columns[k] /= left[best] ** 0.5
        rest -= np.outer(rest[:, best] / left[best] ** 0.5, columns[k])
        left -= columns[k] ** 2
        chosen.append(best)
    return np.sort(np.array(chosen, dtype=np.intp))
