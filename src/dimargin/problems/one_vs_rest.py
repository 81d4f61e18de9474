"""Binary problems of a classification: one problem for two classes, else each class against the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import Floats


def labels_of(codes: Any, n_classes: int) -> Floats:
    """Return plus or minus one in every problem, of shape (n_outputs, n), for the index of every row's class.

    Examples
    --------
    >>> labels_of(np.array([0, 1]), 2), labels_of(np.array([0, 2]), 3)
    (array([[-1.,  1.]]), array([[ 1., -1.],
           [-1., -1.],
           [-1.,  1.]]))
    """
    classes = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(codes == classes[:, None], 1.0, -1.0)


def codes_of(values: Floats) -> Any:
    """Return the index of every row's class, of shape (n,), from decision values or labels.

    They are of shape (n,) for two classes, else (n, n_classes): labels as `labels_of` gives them, transposed.

    Examples
    --------
    >>> codes_of(np.array([-0.5, 2.0])), codes_of(np.array([[0.1, -1.0, 0.2]]))
    (array([0, 1]), array([2]))
    """
    return (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)


def codes_of_labels(labels: Floats) -> Any:
    """Return the index of every row's class from labels of shape (n_outputs, n): the inverse of `labels_of`."""
    return codes_of(labels[0] if len(labels) == 1 else labels.T)
