"""Values, sentences and pictures for the template of the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.display.report import figures, model_facts, notable_rows
from dimargin.display.report.curves import ClassCurves, Reliability, class_curves, reliability
from dimargin.display.report.data_frames import is_table
from dimargin.display.report.importances import Budget, importances
from dimargin.display.report.notable_rows import Rows
from dimargin.display.report.predictions import Predictions, interval, predictions_of
from dimargin.display.report.words import bound, plain
from dimargin.display.unwrap import innermost, uncalibrated
from dimargin.estimators import CoreSetDetector
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing.category_encoder import unseen_categories
from dimargin.system.arrays import Indices

_MAX_TABLE_CLASSES = 100


def content_of(
    model: Any, X: Any, y: Any, names: Callable[[int], str], random_state: int, numbers: Indices
) -> dict[str, Any]:
    """Return the variables of the template; parameters and errors are those of `write_report`.

    The rows have these `numbers` in the file.
    """
    fitted = uncalibrated(model)
    machine = innermost(fitted)
    certificate = model_facts.certificate_of(fitted)
    has_levels, no_history = model_facts.history_of(machine)
    history, levels = figures.convergence(machine) if has_levels else (None, "")
    content = {
        "n_rows": X.shape[0],
        "n_features": X.shape[1],
        "is_table": is_table(X),
        "filled": X.nnz / np.prod(X.shape, dtype=float) if sp.issparse(X) else None,
        "machine": type(machine).__name__,
        "parameters": model_facts.parameters_of(machine),
        "sizes": model_facts.sizes_of(fitted),
        "certificate": certificate,
        "gap": None if certificate.gap is None else bound(certificate.gap),
        "history": history,
        "levels": levels,
        "no_history": no_history,
        "random_state": random_state,
        "unseen": [plain(text, 400) for text in unseen_categories(flat_steps(fitted)[0][1], X)] if is_table(X) else [],
    }
    rows = Rows(X, numbers, names)
    if isinstance(machine, CoreSetDetector):
        return content | {"is_detector": True} | _of_outliers(model, rows)
    if y is None:
        raise ValueError(f"y must be given: the report compares predictions of {type(machine).__name__} with labels")
    return content | {"is_detector": False} | _of_classes(model, rows, np.asarray(y), random_state)


def _of_classes(model: Any, rows: Rows, y: Any, random_state: int) -> dict[str, Any]:
    X, names = rows.X, rows.names
    found = predictions_of(model, X, y)
    is_training, relation = model_facts.relation_to_training(uncalibrated(model), X)
    column_importances = importances(model, X, y, random_state)
    curves, calibration = class_curves(found), reliability(found)
    theta = figures.theta_of(model, found)
    margins, margin_summary = figures.margins(found.margins, theta, len(found.classes) > 2)
    triples = zip(
        column_importances.columns.tolist(), column_importances.means, column_importances.deviations, strict=True
    )
    return {
        "classes": [plain(name) for name in found.classes],
        "found": found,
        "class_rows": _class_rows(found, curves),
        "n_classes_left_out": max(0, len(found.classes) - _MAX_TABLE_CLASSES),
        "is_training": is_training,
        "relation": relation,
        "interval": interval(found.n_right, found.n_rows),
        "most_frequent": int(found.counts.max()) / found.n_rows,
        "confusions": _confusions(found),
        "curves": curves,
        "max_curves": figures.MAX_CURVES,
        "roc": figures.roc(curves, found.classes) if curves else None,
        "precision_recall": figures.precision_recall(curves, found.classes) if curves else None,
        "reliability": calibration,
        "calibration": None if calibration is None else _calibration_figure(found, calibration),
        "margins": margins,
        "margin_summary": margin_summary,
        "theta": theta,
        "importances": column_importances,
        "importance_rows": [(names(int(column)), mean, width) for column, mean, width in triples][:20],
        "repeats": Budget.repeats,
        "least_certain": notable_rows.least_certain(found, rows, column_importances.columns),
        "most_wrong": notable_rows.most_wrong(found, rows, column_importances.columns),
        "seconds": found.seconds,
        "speed": _speed(model, rows),
    }


def _of_outliers(model: Any, rows: Rows) -> dict[str, Any]:
    began = time.perf_counter()
    values = np.asarray(model.decision_function(rows.X))
    seconds = time.perf_counter() - began
    n_outliers = int((values < 0).sum())
    return {
        "n_outliers": n_outliers,
        "interval": interval(n_outliers, len(values)),
        "histogram": figures.histogram(values),
        "outlying": notable_rows.by_score(values, rows),
        "nearest": notable_rows.by_score(np.abs(values), rows, values),
        "seconds": seconds,
        "speed": _speed(model, rows),
    }


def _class_rows(found: Predictions, curves: list[ClassCurves]) -> list[dict[str, Any]]:
    """Return one table line per class; with many classes, only for those with the most rows."""
    measures = dict(zip(("precision", "recall", "f1"), found.by_class, strict=True))
    areas = {curve.index: curve for curve in curves}
    chosen = np.sort(np.argsort(-found.counts, kind="stable")[:_MAX_TABLE_CLASSES]).tolist()
    return [
        {
            "name": plain(found.classes[k]),
            "rows": int(found.counts[k]),
            **{name: float(values[k]) for name, values in measures.items()},
            "area": areas[k].area if k in areas else float("nan"),
            "average_precision": areas[k].average_precision if k in areas else float("nan"),
        }
        for k in chosen
    ]


def _confusions(found: Predictions) -> dict[str, Any]:
    """Return the confusion matrix, or with many classes the most frequent confusions."""
    confusion = found.confusion
    if len(found.classes) <= 12:
        share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
        return {"counts": confusion.tolist(), "shares": share.tolist(), "pairs": []}
    wrong = confusion - np.diag(np.diag(confusion))
    order = np.argsort(-wrong, axis=None, kind="stable")[:20]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    return {
        "counts": [],
        "shares": [],
        "pairs": [
            (plain(found.classes[true]), plain(found.classes[other]), int(wrong[true, other])) for true, other in pairs
        ],
    }


def _calibration_figure(found: Predictions, groups: Reliability) -> str:
    two, second = len(found.classes) == 2, plain(found.classes[1], 24)
    outcome = f"share of {second}" if two else "share of correct predictions"
    if groups.is_probability:
        return figures.calibration(groups, f"probability of {second}" if two else "largest probability", outcome)
    score = "decision value" if two else "largest decision value minus the second"
    return figures.calibration(groups, score, outcome)


def _speed(model: Any, rows: Rows) -> str:
    """Return a sentence about what the time of a prediction depends on."""
    machine = innermost(uncalibrated(model))
    what = (
        f"Every prediction computes kernel values with {len(machine.support_):,} support vectors"
        if hasattr(machine, "support_")
        else "Every prediction multiplies the row by the coefficients"
    )
    if not sp.issparse(rows.X):
        return f"{what}, so all rows take the same time."
    filled = np.diff(rows.X.indptr)
    fullest = int(filled.argmax())
    return (
        f"{what}; rows with more nonzero values take longer. Row {rows.numbers[fullest]:,} has the most, "
        f"{filled[fullest]:,}; the mean is {filled.mean():,.1f}."
    )
