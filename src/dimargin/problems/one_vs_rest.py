"""One-vs-rest classification: one binary problem for two classes, else one per class."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import Floats


def labels_of(codes: Any, n_classes: int) -> Floats:
    """Return labels of plus or minus one, of shape (n_outputs, n), from the class of each row.

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
    """Return the class index of each row, of shape (n,), from decision values or transposed labels.

    These are of shape (n,) for two classes, else (n, n_classes).

    Examples
    --------
    >>> codes_of(np.array([-0.5, 2.0])), codes_of(np.array([[0.1, -1.0, 0.2]]))
    (array([0, 1]), array([2]))
    """
    return (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)


def codes_of_labels(labels: Floats) -> Any:
    """Return the class index of each row from labels of shape (n_outputs, n) (see `labels_of`)."""
    return codes_of(labels[0] if len(labels) == 1 else labels.T)
