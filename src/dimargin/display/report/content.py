"""Values, sentences and pictures for the template of the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OutlierMixin, RegressorMixin

from dimargin.display.regression_scores import regression_scores
from dimargin.display.report import figures, model_facts, notable_rows
from dimargin.display.report.curves import ClassCurves, Reliability, class_curves, reliability
from dimargin.display.report.data_frames import is_table
from dimargin.display.report.importances import Budget, importances
from dimargin.display.report.notable_rows import Rows
from dimargin.display.report.predictions import Predictions, interval, predictions_of
from dimargin.display.report.residuals import Residuals
from dimargin.display.report.words import bound, plain
from dimargin.display.unwrap import innermost, uncalibrated
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
    content |= {"is_detector": isinstance(machine, OutlierMixin), "is_regressor": isinstance(machine, RegressorMixin)}
    if content["is_detector"]:
        return content | _of_outliers(model, rows)
    if y is None:
        raise ValueError(f"y must be given: the report compares predictions of {type(machine).__name__} with labels")
    return content | _of_labelled(model, rows, np.asarray(y), random_state, content["is_regressor"])


def _of_labelled(model: Any, rows: Rows, y: Any, random_state: int, is_regressor: bool) -> dict[str, Any]:
    predictions: Any = Residuals.of(model, rows.X, y) if is_regressor else predictions_of(model, rows.X, y)
    of_kind = _of_numbers if is_regressor else _of_classes
    is_training, relation = model_facts.relation_to_training(uncalibrated(model), rows.X)
    found = importances(model, rows.X, y, random_state)
    triples = zip(found.columns.tolist(), found.means, found.deviations, strict=True)
    return {
        "is_training": is_training,
        "relation": relation,
        "importances": found,
        "importance_rows": [(rows.names(int(column)), mean, width) for column, mean, width in triples][:20],
        "repeats": Budget.repeats,
        "seconds": predictions.seconds,
        "speed": _speed(model, rows),
        **of_kind(model, rows, predictions, found.columns),
    }


def _of_numbers(model: Any, rows: Rows, found: Residuals, first: Indices) -> dict[str, Any]:
    epsilon = float(getattr(innermost(model), "epsilon", 0.0))
    deciles, n_outside = found.deciles, int((np.abs(found.values) > epsilon * (1 + 1e-6)).sum())
    return {
        "scores": regression_scores(found.true, found.predicted),
        "median_error": float(np.abs(found.true - np.median(found.true)).mean()),
        "deciles": deciles,
        "decile_errors": figures.decile_errors(deciles),
        "epsilon": epsilon,
        "n_outside": n_outside,
        "interval": interval(n_outside, len(found.true)),
        "residuals": figures.residuals(found, epsilon),
        "largest_errors": notable_rows.largest_errors(found, rows, first),
    }


def _of_classes(model: Any, rows: Rows, found: Predictions, first: Indices) -> dict[str, Any]:
    curves, calibration = class_curves(found), reliability(found)
    theta = figures.theta_of(model, found)
    margins, margin_summary = figures.margins(found.margins, theta, len(found.classes) > 2)
    return {
        "classes": [plain(name) for name in found.classes],
        "found": found,
        "class_rows": _class_rows(found, curves),
        "n_classes_left_out": max(0, len(found.classes) - _MAX_TABLE_CLASSES),
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
        "least_certain": notable_rows.least_certain(found, rows, first),
        "most_wrong": notable_rows.most_wrong(found, rows, first),
    }


def _of_outliers(model: Any, rows: Rows) -> dict[str, Any]:
    began = time.perf_counter()
    values = np.asarray(model.decision_function(rows.X))
    seconds = time.perf_counter() - began
    n_outliers, own = int((values < 0).sum()), innermost(model).get_params(deep=False)
    name = next((name for name in ("nu", "contamination") if isinstance(own.get(name), float)), None)
    return {
        "share": None if name is None else (name, own[name]),
        "n_outliers": n_outliers,
        "interval": interval(n_outliers, len(values)),
        "histogram": figures.histogram(values, own.get(name)),
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
