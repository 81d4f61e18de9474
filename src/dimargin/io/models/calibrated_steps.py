"""Calibrated classifiers in model files: their machines, and the numbers of their calibration.

The calibrators of scikit-learn are private classes or have private attributes. So a calibrator is
stored as the numbers that were fitted, and restored by fitting one to other values and replacing
its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import Pipeline

from dimargin.estimators import MarginClassifier
from dimargin.estimators.calibration import adopt, check_method, fitted_to
from dimargin.estimators.nested_steps import flat_steps
from dimargin.io.models.search_steps import stored_pipeline

_FITTED_NUMBERS = {"sigmoid": ("a_", "b_"), "isotonic": ("X_thresholds_", "y_thresholds_"), "temperature": ("beta_",)}
_PARAMETERS = ("method", "cv", "ensemble", "frozen")
_ATTRIBUTES = ("classes_", "n_features_in_", "feature_names_in_")


def stored(model: CalibratedClassifierCV) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and attributes of a fitted model; raises TypeError if files cannot store it.

    The attribute ``members`` contains the steps of each machine and the numbers of its calibrators.
    A splitter is stored as its number of folds.
    """
    cv = model.cv if model.cv is None or isinstance(model.cv, int) else getattr(model.cv, "n_splits", None)
    frozen = isinstance(model.estimator, FrozenEstimator)
    parameters = {"method": model.method, "cv": cv, "ensemble": model.ensemble, "frozen": frozen}
    members = [_stored_member(model, inside) for inside in model.calibrated_classifiers_]
    return parameters, {"members": members, **{name: vars(model)[name] for name in _ATTRIBUTES if name in vars(model)}}


def _stored_member(model: CalibratedClassifierCV, inside: Any) -> dict[str, Any]:
    fitted = inside.estimator.estimator if isinstance(inside.estimator, FrozenEstimator) else inside.estimator
    machine = flat_steps(fitted)[-1][1]
    if not isinstance(machine, MarginClassifier):
        raise TypeError(
            f"cannot save a CalibratedClassifierCV of {type(machine).__name__}; expected a classifier of dimargin, "
            "which may be in pipelines and searches"
        )
    steps = stored_pipeline(fitted)["steps"] if isinstance(fitted, Pipeline) else [("machine", fitted)]
    is_coded = model.method == "temperature" and np.array_equal(machine.classes_, np.arange(len(model.classes_)))
    if is_coded and machine is steps[-1][1]:
        # scikit-learn trains on 0, 1, ... instead of texts. The stored machine has the labels.
        machine = copy(machine)
        machine.classes_ = model.classes_
        steps = [*steps[:-1], (steps[-1][0], machine)]
    if not np.array_equal(machine.classes_, model.classes_):
        raise TypeError(
            f"cannot save a CalibratedClassifierCV of the classes {model.classes_.tolist()} with a machine of the "
            f"classes {machine.classes_.tolist()}; use fewer folds, or ensemble=False"
        )
    numbers = [{name: getattr(one, name) for name in _FITTED_NUMBERS[model.method]} for one in inside.calibrators]
    return {"steps": steps, "pipeline": isinstance(fitted, Pipeline), "calibrators": numbers}


# ---- restored --------------------------------------------------------------------------------------------------------


def restored(
    model_of: Callable[[list[tuple[str, Any]], bool], Any], parameters: dict[str, Any], attributes: dict[str, Any]
) -> CalibratedClassifierCV:
    """Return the fitted model for values of `stored`; `model_of` returns the one of a member, for its steps.

    Raises ValueError, TypeError or KeyError for values that `stored` cannot have returned.
    """
    if set(parameters) != set(_PARAMETERS):
        raise ValueError(f"a CalibratedClassifierCV has the parameters {sorted(parameters)}")
    method, cv, ensemble, frozen = (parameters[name] for name in _PARAMETERS)
    check_method(method)
    classes, width = attributes["classes_"], attributes.get("n_features_in_")  # Models of texts have no width.
    members = [model_of(member["steps"], bool(member["pipeline"])) for member in attributes["members"]]
    widths = {getattr(one, "n_features_in_", None) for one in members}
    if widths != {width} or not all(_alike(one.classes_, classes) for one in members):
        raise ValueError("the machines of a CalibratedClassifierCV do not fit its classes and columns")
    model = CalibratedClassifierCV(
        FrozenEstimator(members[0]) if frozen else clone(members[0]), method=method, cv=cv, ensemble=ensemble
    )
    model._validate_params()
    model.calibrated_classifiers_ = [
        _restored_member(method, classes, one, stored["calibrators"])
        for one, stored in zip(members, attributes["members"], strict=True)
    ]
    for name in (name for name in _ATTRIBUTES if name in attributes):
        setattr(model, name, attributes[name])
    return model


def _alike(some: Any, others: Any) -> bool:
    return isinstance(others, np.ndarray) and some.dtype == others.dtype and np.array_equal(some, others)


def _restored_member(method: str, classes: NDArray[Any], machine: Any, numbers: list[dict[str, Any]]) -> Any:
    if len(numbers) != (1 if len(classes) == 2 or method == "temperature" else len(classes)):
        raise ValueError(f"{len(numbers)} calibrators do not fit {len(classes)} classes")
    inside = fitted_to(np.array([-1.0, 1.0]), np.array([0, 1]), None, method).calibrated_classifiers_[0]
    inside.calibrators = [_restored_calibrator(inside.calibrators[0], method, one) for one in numbers]
    adopt(inside, machine, classes)
    return inside


def _restored_calibrator(like: Any, method: str, numbers: dict[str, Any]) -> Any:
    if set(numbers) != set(_FITTED_NUMBERS[method]):
        raise ValueError(f"a {method} calibrator has the numbers {sorted(numbers)}")
    calibrator = clone(like)
    if isinstance(calibrator, IsotonicRegression):
        x, y = (_ascending(name, numbers[name]) for name in _FITTED_NUMBERS[method])
        if y[0] < 0 or y[-1] > 1 + 1e-5:  # scikit-learn cuts off a rounding of this size when it predicts.
            raise ValueError("an isotonic calibrator has values that are not probabilities")
        calibrator.fit(x, y)
        if not (np.array_equal(calibrator.X_thresholds_, x) and np.array_equal(calibrator.y_thresholds_, y)):
            raise ValueError("the thresholds of an isotonic calibrator are not what isotonic regression yields")
        return calibrator
    for name, value in numbers.items():
        if not (isinstance(value, float) and np.isfinite(value)):
            raise ValueError(f"{name} of a {method} calibrator must be a finite number")
        setattr(calibrator, name, np.float64(value))
    return calibrator


def _ascending(name: str, values: Any) -> NDArray[Any]:
    given: NDArray[Any] = np.asarray(values)
    sound = given.dtype == np.float64 and given.ndim == 1 and len(given) > 0
    if not (sound and np.isfinite(given).all() and (np.diff(given) >= 0).all()):
        raise ValueError(f"{name} of an isotonic calibrator is not an array of ascending finite numbers")
    return given
