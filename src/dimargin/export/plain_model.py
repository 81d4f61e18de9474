"""Fitted models as arrays of numbers, which other programs can compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import KernelMarginClassifier, MulticlassKernelClassifier
from dimargin.estimators.linear_machine import LinearMarginClassifier
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing import SparseScaler
from dimargin.kernels.functions import Kernel
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class PlainMachine:
    """Decision functions ``coefficients @ k(vectors, x) + intercepts``; of x itself with the linear kernel."""

    kernel: Kernel
    vectors: Floats  # Of shape (n_vectors, n_features); empty with the linear kernel.
    coefficients: Floats  # Of shape (n_outputs, n_vectors), with the linear kernel (n_outputs, n_features).
    intercepts: Floats
    pair_scores: str | None  # Rule by which outputs for pairs of classes give one for each class.


def parts_of(estimator: Any) -> tuple[list[tuple[str, Any]], Any, Any]:
    """Return the steps before the machine of a classifier, the machine, and its calibrated classifier or None."""
    check_is_fitted(estimator)
    *before, (_, last) = flat_steps(estimator)
    if not isinstance(last, CalibratedClassifierCV):
        return before, last, None
    calibrated, *others = last.calibrated_classifiers_
    if others:
        raise ValueError("cannot export the machines of several folds; fit CalibratedClassifierCV with ensemble=False")
    model = calibrated.estimator
    *own, (_, machine) = flat_steps(model.estimator if isinstance(model, FrozenEstimator) else model)
    return [*before, *own], machine, calibrated


def plain_machine(machine: Any) -> PlainMachine:
    """Return the numbers of a machine; TypeError or ValueError for one without a single decision function."""
    kind = type(machine).__name__
    if not isinstance(machine, (LinearMarginClassifier, KernelMarginClassifier)):
        raise TypeError(f"cannot export {kind}; expected a classifier of dimargin, or pipelines and calibration of one")
    is_pairs = isinstance(machine, MulticlassKernelClassifier) and machine._is_one_vs_one
    kernel = Kernel("linear")
    if isinstance(machine, KernelMarginClassifier):
        if machine._router is not None:
            raise ValueError(f"cannot export {kind}, which predicts by clusters or parts; fit it with stop_level=0")
        if not isinstance(machine._transform.kernel, Kernel):
            raise ValueError(f"cannot export {kind} with kernel={machine.kernel!r}; expected a kernel by its name")
        kernel = machine._transform.kernel
    if kernel.name == "linear":
        vectors, coefficients = np.empty((0, machine.n_features_in_)), dense(machine.coef_)
    else:
        vectors, coefficients = dense(machine.support_vectors_), machine.dual_coef_
        if is_pairs:  # One row per pair, zeros included.
            vector = sp.eye_array(len(vectors), format="csr")
            coefficients = machine._sums_of_pairs(len(vectors), lambda rows, factors: factors @ vector[rows])
    rule, intercepts = machine.pair_scores if is_pairs else None, np.asarray(machine.intercept_, dtype=np.float64)
    return PlainMachine(kernel, vectors, coefficients, intercepts, rule)


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
