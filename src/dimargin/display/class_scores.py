"""Scores of every class against all others: precision, recall, F1 and the area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from dimargin.system.arrays import Floats


def class_scores(
    y: NDArray[Any],
    values: Floats,
    classes: NDArray[Any],
    confusion: NDArray[Any],
    weights: Floats | None = None,
) -> dict[str, list[float | None]]:
    """Compute scores of every class, None where one is undefined.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        True labels, all of which are in `classes`.
    values : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        Decision values, or probabilities of shape (n_rows, n_classes).
    classes : ndarray of shape (n_classes,)
    confusion : array-like of shape (n_classes, n_classes)
        Confusion matrix, with true classes as rows and weighted like the rows.
    weights : ndarray of shape (n_rows,) or None
        Weights of the rows, for the areas.

    Returns
    -------
    dict of str to list
        ``precision``, undefined for a class that is never predicted; ``recall``, undefined for a
        class without rows; ``f1``, undefined for a class with neither; ``auc``, the area under the
        ROC curve, undefined unless there are rows of this class and of others.

    Examples
    --------
    >>> import numpy as np
    >>> y, values = np.array(["ham", "ham", "spam", "spam"]), np.array([-2.0, 0.5, 0.3, 4.0])
    >>> scores = class_scores(y, values, np.array(["ham", "spam"]), [[1, 1], [0, 2]])
    >>> scores["precision"][0], scores["recall"][0], scores["auc"]
    (1.0, 0.5, [0.75, 0.75])
    """
    confusion = np.asarray(confusion, dtype=np.float64)
    right, true, predicted = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    columns = values.T if values.ndim == 2 else (-values, values)
    has_auc = (true > 0) & (true < true.sum())
    return {
        "precision": _ratios(right, predicted),
        "recall": _ratios(right, true),
        "f1": _ratios(2 * right, true + predicted),
        "auc": [
            float(roc_auc_score(y == label, column, sample_weight=weights)) if defined else None
            for label, column, defined in zip(classes, columns, has_auc, strict=True)
        ],
    }


def _ratios(parts: Floats, totals: Floats) -> list[float | None]:
    return [part / total if total else None for part, total in zip(parts.tolist(), totals.tolist(), strict=True)]
