"""Calibrated probabilities of a machine that is already trained.

The result is the `CalibratedClassifierCV` of scikit-learn that its own ``fit`` with
``ensemble=False`` and the same folds would return. Here the machine is not trained again, its folds
share a time limit and can be interrupted, and model files restore it from the numbers of the
calibration.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.metaestimators import _safe_split

from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.estimators.search.folds import DecisionValueClassifier
from dimargin.system.arrays import Floats, Indices

METHODS = ("sigmoid", "isotonic", "temperature")
_MAX_FOLDS = 5  # This is the default of CalibratedClassifierCV.


def check_method(method: str) -> None:
    """Raise ValueError for a method that is unknown, or that the installed scikit-learn does not have."""
    if method not in METHODS:
        raise ValueError(f"the calibration must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "temperature" and tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        raise ValueError(f"temperature scaling needs scikit-learn 1.8 or newer; {sklearn.__version__} is installed")


@dataclass(frozen=True)
class CalibrationRows:
    """Rows on which a machine was trained, and the folds by which it is calibrated.

    Attributes
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,) or None
    folds : list of (train, test)
        Indices of rows with positive weight.
    """

    X: Any
    y: NDArray[Any]
    weights: Floats | None
    folds: list[tuple[Indices, Indices]]

    @classmethod
    def split(cls, X: Any, y: Any, weights: Any, seed: int) -> CalibrationRows:
        """Make five shuffled folds in which all classes are as frequent as in all rows.

        There are fewer if a class has fewer rows. Raises ValueError if a class has only one.
        """
        y, weights = np.asarray(y), None if weights is None else np.asarray(weights, dtype=np.float64)
        kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
        classes, counts = np.unique(y[kept], return_counts=True)
        if counts.min() < 2:
            rare = classes[counts.argmin()]
            raise ValueError(f"probabilities need two rows or more of every class; class {str(rare)!r} has one")
        splitter = StratifiedKFold(min(_MAX_FOLDS, int(counts.min())), shuffle=True, random_state=seed)
        folds = [(kept[train], kept[test]) for train, test in splitter.split(np.zeros(len(kept)), y[kept])]
        return cls(X, y, weights, folds)

    def decision_values(
        self,
        machine: Any,
        max_time: float | None = None,
        monitor: Monitor | None = None,
        fold_end: Callable[[int], None] = lambda number: None,
    ) -> Floats | None:
        """Train a copy of the machine without each fold, and compute the decision values of the fold's rows.

        Parameters
        ----------
        machine : fitted classifier
        max_time : float or None
            Time limit in seconds. Every copy gets an equal part of the time that is left.
        monitor : Monitor or None
            Listener of the fits; interrupting it ends the work.
        fold_end : callable
            Receives the number of every fold that is done.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes), or None
            NaN for rows of weight zero; None if the monitor was interrupted.
        """
        monitor = monitor or Monitor()
        began = time.perf_counter()
        n_classes = len(machine.classes_)
        values = np.full((len(self.y), *([] if n_classes == 2 else [n_classes])), np.nan)
        for number, (train, test) in enumerate(self.folds):
            copy = clone(machine)
            if max_time is not None:
                left = max_time - (time.perf_counter() - began)
                copy.set_params(max_time=max(left / (len(self.folds) - number), 1e-3))
            rows, labels = _safe_split(copy, self.X, self.y, train)
            weights = {} if self.weights is None else {"sample_weight": self.weights[train]}
            with observed(copy, monitor):
                copy.fit(rows, labels, **weights)
            if monitor.interrupted.is_set():
                return None
            values[test] = copy.decision_function(_safe_split(copy, self.X, self.y, test, train)[0])
            fold_end(number)
        return values

    def calibrate(self, machine: Any, values: Floats, method: str) -> CalibratedClassifierCV:
        """Return the machine with probabilities that fit the decision values of all folds."""
        kept = np.sort(np.concatenate([test for _, test in self.folds]))
        codes = np.searchsorted(machine.classes_, self.y[kept])
        weights = None if self.weights is None else self.weights[kept]
        return calibrated(machine, values[kept], codes, weights, method, len(self.folds))


# ---- parts of a CalibratedClassifierCV -------------------------------------------------------------------------------


def calibrated(
    machine: Any, values: Floats, codes: Indices, weights: Floats | None, method: str, n_folds: int
) -> CalibratedClassifierCV:
    """Return the machine with probabilities that fit the decision values of folds; see `fitted_to`."""
    model = fitted_to(values, codes, weights, method)
    adopt(model.calibrated_classifiers_[0], machine, machine.classes_)
    model.classes_, model.n_features_in_ = machine.classes_, machine.n_features_in_
    return model.set_params(estimator=clone(machine), cv=n_folds)


def probabilities_of(model: CalibratedClassifierCV, values: Floats) -> Floats:
    """Return the probabilities of classes for decision values of the machine of a calibrated model."""
    inside = copy(model.calibrated_classifiers_[0])
    adopt(inside, DecisionValueClassifier(model.classes_), model.classes_)
    return np.asarray(inside.predict_proba(values))


def fitted_to(values: Floats, codes: Indices, weights: Floats | None, method: str) -> CalibratedClassifierCV:
    """Fit probabilities to decision values of rows, whose classes are 0, 1 and so on."""
    every, machine = np.arange(len(codes)), DecisionValueClassifier(np.unique(codes))
    model = CalibratedClassifierCV(machine, method=method, cv=[(every, every)], ensemble=False)
    return model.fit(values, codes, sample_weight=weights)


def adopt(calibrated: Any, machine: Any, classes: NDArray[Any]) -> None:
    """Let an entry of ``calibrated_classifiers_`` from `fitted_to` predict rows by this machine."""
    calibrated.estimator, calibrated.classes = machine, classes
