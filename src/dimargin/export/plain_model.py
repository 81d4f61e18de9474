"""Fitted models as arrays of numbers, which other programs can compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import MulticlassKernelClassifier
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.estimators.linear_machine import LinearMachine
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing import SparseScaler
from dimargin.kernels.functions import Kernel
from dimargin.svm import LinearSVC, LinearSVR
from dimargin.svm.libsvm import CertifiedLibsvm
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class PlainMachine:
    """Decision functions ``coefficients @ k(vectors, x) + intercepts``; of x itself with the linear kernel."""

    kernel: Kernel
    vectors: Floats  # Of shape (n_vectors, n_features); empty with the linear kernel.
    coefficients: Floats  # Of shape (n_outputs, n_vectors), with the linear kernel (n_outputs, n_features).
    intercepts: Floats
    pair_scores: str | None  # Rule by which outputs for pairs of classes give one for each class.
    by_votes_alone: bool = False  # LIBSVM's labels: of classes with equal votes, the first.


def parts_of(estimator: Any) -> tuple[list[tuple[str, Any]], Any, Any]:
    """Return the steps before the machine, the machine, and its calibration or scaling of targets, or None."""
    check_is_fitted(estimator)
    *before, (_, last) = flat_steps(estimator)
    if isinstance(last, TransformedTargetRegressor):
        *own, (_, machine) = flat_steps(last.regressor_)
        return [*before, *own], machine, last
    if not isinstance(last, CalibratedClassifierCV):
        return before, last, None
    calibrated, *others = last.calibrated_classifiers_
    if others:
        raise ValueError("cannot export the machines of several folds; fit CalibratedClassifierCV with ensemble=False")
    model = calibrated.estimator
    *own, (_, machine) = flat_steps(model.estimator if isinstance(model, FrozenEstimator) else model)
    return [*before, *own], machine, calibrated


def plain_model(estimator: Any) -> tuple[list[tuple[str, Any]], PlainMachine, NDArray[Any], dict[str, Any]]:
    """Return steps, the machine, its labels (none for a regressor), and the method and numbers of its probabilities."""
    steps, fitted, around = parts_of(estimator)
    machine, labels = plain_machine(fitted), np.empty(0, dtype=np.int64)
    if is_outlier_detector(fitted):
        labels = np.array([-1, 1])
    elif is_classifier(fitted):
        labels = class_labels(fitted.classes_ if around is None else around.classes)
    if isinstance(around, TransformedTargetRegressor):
        if (scaling := scaling_of(around.transformer_)) is None:
            raise TypeError(f"cannot export targets transformed by {around.transformer_!r:.200}; expected a scaler")
        offset, factor = scaling
        intercepts = machine.intercepts / factor + offset
        machine = replace(machine, coefficients=machine.coefficients / factor, intercepts=intercepts)
    method, maps = getattr(around, "method", None), getattr(around, "calibrators", [])
    if method == "isotonic":
        pieces = [np.array([one.X_thresholds_, one.y_thresholds_]) for one in maps]
        return steps, machine, labels, {"method": method, "pieces": pieces}
    numbers = [(one.beta_, 0.0) if method == "temperature" else (one.a_, one.b_) for one in maps]
    if method == "temperature" and len(machine.intercepts) == 1:  # The first class has the negative of the score.
        method, numbers = "sigmoid", [(-2.0 * maps[0].beta_, 0.0)]
    return steps, machine, labels, {"method": method, "sigmoids": numbers}


def plain_machine(fitted: Any) -> PlainMachine:
    """Return the numbers of a machine; TypeError or ValueError for one without a single decision function."""
    kind, machine = type(fitted).__name__, fitted.own_machine() if isinstance(fitted, CertifiedLibsvm) else fitted
    if isinstance(fitted, (LinearSVC, LinearSVR)):
        coefficients = np.atleast_2d(dense(fitted.coef_))
        intercepts = np.zeros(len(coefficients)) + fitted.intercept_
        return PlainMachine(Kernel("linear"), np.empty((0, coefficients.shape[1])), coefficients, intercepts, None)
    if machine is None:
        raise ValueError(f"cannot export {kind} with kernel={fitted.kernel!r}, which scikit-learn's own class computes")
    if not isinstance(machine, (LinearMachine, KernelMachine)):
        raise TypeError(f"cannot export {kind}; expected a classifier or regressor of dimargin, also in a pipeline")
    is_pairs = isinstance(machine, MulticlassKernelClassifier) and machine._is_one_vs_one
    kernel = Kernel("linear")
    if isinstance(machine, KernelMachine):
        if machine._router is not None:
            raise ValueError(f"cannot export {kind}, which predicts by clusters or parts; fit it with stop_level=0")
        if not isinstance(machine._transform.kernel, Kernel):
            raise ValueError(f"cannot export {kind} with kernel={fitted.kernel!r}; expected a kernel by its name")
        kernel = machine._transform.kernel
    if is_pairs and getattr(fitted, "decision_function_shape", "ovr") != "ovr":
        raise ValueError(f"cannot export {kind} with decision_function_shape='ovo'; set it to 'ovr'")
    if kernel.name == "linear":
        vectors, coefficients = np.empty((0, machine.n_features_in_)), dense(machine.coef_)
    else:
        vectors, coefficients = dense(machine.support_vectors_), machine.dual_coef_
        if is_pairs:  # One row per pair, zeros included.
            vector = sp.eye_array(len(vectors), format="csr")
            coefficients = machine._sums_of_pairs(len(vectors), lambda rows, factors: factors @ vector[rows])
    rule, intercepts = machine.pair_scores if is_pairs else None, np.asarray(machine.intercept_, dtype=np.float64)
    by_votes_alone = is_pairs and not getattr(fitted, "break_ties", True)
    return PlainMachine(kernel, vectors, coefficients, intercepts, rule, by_votes_alone)


def dense(values: Any) -> Floats:
    """Return an array or sparse matrix as an array of float64."""
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)


def scaling_of(step: Any) -> tuple[Floats, Floats] | None:
    """Return offset and factor of a scaler, which computes ``(x - offset) * factor``; None for any other step."""
    kinds = (StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler, SparseScaler)
    if not isinstance(step, kinds) or getattr(step, "clip", False):
        return None
    scale, zeros = np.ones(step.n_features_in_), np.zeros((1, step.n_features_in_))
    if isinstance(step, SparseScaler):
        scale[step.columns_] = step.scale_
        return zeros[0], 1 / scale
    scale = scale if step.scale_ is None else step.scale_
    return step.inverse_transform(zeros)[0], scale if isinstance(step, MinMaxScaler) else 1 / scale


def class_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels as whole numbers, texts (type object) or booleans."""
    labels = np.asarray(classes.tolist())
    kind = {"U": object, "b": bool}.get(labels.dtype.kind, np.int64)
    if labels.dtype.kind not in "Ubiuf" or (labels != labels.astype(kind)).any():
        raise ValueError(f"cannot export the labels {classes.tolist()}; expected whole numbers, texts or booleans")
    return labels.astype(kind)


def rendered(template: str, **content: Any) -> str:
    """Return the text of a template in this folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__, "")
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(content) + "\n"
