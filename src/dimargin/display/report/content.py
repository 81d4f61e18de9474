"""Content of the page: numbers, sentences and pictures, by the names that the template knows them by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.display.report import figures, model_facts, notable_rows
from dimargin.display.report.curves import ClassCurves, Reliability, class_curves, reliability
from dimargin.display.report.importances import REPEATS, importances
from dimargin.display.report.predictions import Predictions, interval, predictions_of
from dimargin.display.report.words import bound, plain
from dimargin.display.unwrap import innermost
from dimargin.estimators import CoreSetDetector

_MAX_CLASSES = 12  # of a table of confusions; of more classes the most frequent confusions are listed
_MAX_CONFUSIONS = 20
_MAX_IN_TABLE = 100  # classes
_SHOWN_IMPORTANCES = 20


def content_of(model: Any, X: Any, y: Any, names: Callable[[int], str], random_state: int) -> dict[str, Any]:
    """Return all that the template shows of a model and rows; parameters and errors are those of `write_report`."""
    fitted = model_facts.uncalibrated(model)
    machine = innermost(fitted)
    certificate = model_facts.certificate_of(fitted)
    has_levels, no_history = model_facts.history_of(machine)
    history, levels = figures.convergence(machine) if has_levels else (None, "")
    content = {
        "n_rows": X.shape[0],
        "n_features": X.shape[1],
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
    }
    if isinstance(machine, CoreSetDetector):
        return content | {"is_detector": True} | _of_outliers(model, X, names)
    if y is None:
        raise ValueError(f"y must be given: a report compares the answers of a {type(machine).__name__} with labels")
    return content | {"is_detector": False} | _of_classes(model, X, np.asarray(y), names, random_state)


def _of_classes(model: Any, X: Any, y: Any, names: Callable[[int], str], random_state: int) -> dict[str, Any]:
    found = predictions_of(model, X, y)
    is_training, relation = model_facts.relation_to_training(model_facts.uncalibrated(model), X)
    important = importances(model, X, y, random_state)
    of_classes, of_scores = class_curves(found), reliability(found)
    theta = figures.theta_of(model, found)
    margins, said_of_margins = figures.margins(found.margins, theta, len(found.classes) > 2)
    triples = zip(important.columns.tolist(), important.means, important.deviations, strict=True)
    return {
        "classes": [plain(name) for name in found.classes],
        "found": found,
        "class_rows": _class_rows(found, of_classes),
        "n_classes_left_out": max(0, len(found.classes) - _MAX_IN_TABLE),
        "is_training": is_training,
        "relation": relation,
        "interval": interval(found.n_right, found.n_rows),
        "most_frequent": int(found.counts.max()) / found.n_rows,
        "confusions": _confusions(found),
        "curves": of_classes,
        "max_curves": figures.MAX_CURVES,
        "roc": figures.roc(of_classes, found.classes) if of_classes else None,
        "precision_recall": figures.precision_recall(of_classes, found.classes) if of_classes else None,
        "reliability": of_scores,
        "calibration": None if of_scores is None else _calibration(found, of_scores),
        "margins": margins,
        "said_of_margins": said_of_margins,
        "theta": theta,
        "importances": important,
        "importance_rows": [(names(int(column)), mean, width) for column, mean, width in triples][:_SHOWN_IMPORTANCES],
        "repeats": REPEATS,
        "least_certain": notable_rows.least_certain(found, X, names, important.columns),
        "most_wrong": notable_rows.most_wrong(found, X, names, important.columns),
        "seconds": found.seconds,
        "speed": _speed(model, X),
    }


def _of_outliers(model: Any, X: Any, names: Callable[[int], str]) -> dict[str, Any]:
    began = time.perf_counter()
    values = np.asarray(model.decision_function(X))
    seconds = time.perf_counter() - began
    none = np.empty(0, dtype=np.int64)
    n_outliers = int((values < 0).sum())
    return {
        "n_outliers": n_outliers,
        "interval": interval(n_outliers, len(values)),
        "histogram": figures.histogram(values),
        "outlying": notable_rows.by_score(values, X, names, none),
        "nearest": notable_rows.by_score(np.abs(values), X, names, none, values),
        "seconds": seconds,
        "speed": _speed(model, X),
    }


def _class_rows(found: Predictions, curves: list[ClassCurves]) -> list[dict[str, Any]]:
    """Return the line of every class in the table of classes, those of most rows if there are many, in their order."""
    precision, recall, f1 = found.by_class
    areas = {curve.index: curve for curve in curves}
    chosen = np.sort(np.argsort(-found.counts, kind="stable")[:_MAX_IN_TABLE]).tolist()
    return [
        {
            "name": plain(found.classes[k]), "rows": int(found.counts[k]), "precision": float(precision[k]),
            "recall": float(recall[k]), "f1": float(f1[k]),
            "area": areas[k].area if k in areas else float("nan"),
            "average_precision": areas[k].average_precision if k in areas else float("nan"),
        }
        for k in chosen
    ]  # fmt: skip


def _confusions(found: Predictions) -> dict[str, Any]:
    """Return the table of confusions, with the share of each row's class, or of many classes the most frequent ones."""
    confusion = found.confusion
    if len(found.classes) <= _MAX_CLASSES:
        share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
        return {"counts": confusion.tolist(), "shares": share.tolist(), "pairs": []}
    wrong = confusion - np.diag(np.diag(confusion))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MAX_CONFUSIONS]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    return {
        "counts": [],
        "shares": [],
        "pairs": [
            (plain(found.classes[true]), plain(found.classes[other]), int(wrong[true, other])) for true, other in pairs
        ],
    }


def _calibration(found: Predictions, of_scores: Reliability) -> str:
    two, second = len(found.classes) == 2, plain(found.classes[1], 24)
    came_true = f"share of {second}" if two else "share of right answers"
    if of_scores.is_probability:
        return figures.calibration(of_scores, f"probability of {second}" if two else "largest probability", came_true)
    return figures.calibration(of_scores, "decision value" if two else "best decision value less the next", came_true)


def _speed(model: Any, X: Any) -> str:
    """Return what the time of a prediction depends on."""
    machine = innermost(model_facts.uncalibrated(model))
    what = (
        f"A prediction computes kernel values with {len(machine.support_):,} support vectors, whatever the row"
        if hasattr(machine, "support_")
        else "A prediction multiplies the row with coefficients, whatever is in it"
    )
    if not sp.issparse(X):
        return f"{what}, so that no row is slower than another."
    filled = np.diff(X.indptr)
    fullest = int(filled.argmax())
    return (
        f"{what}; rows with more values take longer. The fullest is row {fullest + 1:,} with {filled[fullest]:,} "
        f"values, where the mean row has {filled.mean():,.1f}."
    )
