"""C source of fitted machines, for microcontrollers."""

from __future__ import annotations

import json
import re
from math import floor
from typing import Any

import numpy as np

from dimargin.export.plain_model import dense, plain_model, rendered, scaling_of
from dimargin.kernels.functions import LOG2E, Kernel
from dimargin.system.arrays import Floats
from dimargin.version import __version__


def to_c(estimator: Any, name: str = "machine", numbers: str = "float32", rows: Any = None) -> str:
    """Return a fitted machine as one C99 file without allocation, which contains the support vectors.

    It defines ``int NAME_predict(const float *x)``, which returns the number of the class,
    ``void NAME_decision(const float *x, float *out)``, ``void NAME_probabilities(const float *x,
    float *out)`` for a CalibratedClassifierCV, and the table ``NAME_labels``; for a regressor,
    ``float NAME_predict(const float *x)``.

    Parameters
    ----------
    estimator : classifier or regressor with a linear or a named kernel, also one of `dimargin.svm`
        Pipelines with scalers, searches, CalibratedClassifierCV and TransformedTargetRegressor may
        be around it; see docs/guide/export.md.
    name : str, default="machine"
        Prefix of all names.
    numbers : {"float32", "fixed"}, default="float32"
        Arithmetic. "fixed" is of 32-bit integers with scales that the file defines, and sums of 64
        bits, which do not overflow for any row; it has no probabilities.
    rows : array or sparse matrix of shape (n, n_features), default=None
        Rows whose range sets the scales of "fixed", which clips rows beyond twice the range. None
        is the support vectors; linear machines need rows.

    Returns
    -------
    str

    Raises
    ------
    TypeError, ValueError, sklearn.exceptions.NotFittedError
        The message names the step or parameter.

    Examples
    --------
    >>> import dimargin as dm
    >>> text = dm.to_c(dm.SVMClassifier().fit([[0.0], [1.0]], ["no", "yes"]), name="spam")
    >>> "int spam_predict(const float *x)" in text
    True
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ValueError(f"name must be an identifier of C, got {name!r}")
    if numbers not in ("float32", "fixed"):
        raise ValueError(f"numbers must be 'float32' or 'fixed', got {numbers!r}")
    steps, machine, labels, calibration = plain_model(estimator)
    if calibration["method"] and numbers == "fixed":
        raise ValueError("numbers='fixed' has no probabilities; use 'float32', or export the machine by itself")
    kernel, offset, factor = machine.kernel, np.zeros(estimator.n_features_in_), np.ones(estimator.n_features_in_)
    for step_name, step in steps:
        if (scaling := scaling_of(step)) is None:
            raise TypeError(f"cannot export the step {step_name!r} to C, {step!r:.200}; expected scalers without clip")
        offset, factor = offset + scaling[0] / factor, factor * scaling[1]
    vectors, coefficients = machine.vectors, machine.coefficients.T
    if rows is None and numbers == "fixed" and kernel.name == "linear":
        raise ValueError("numbers='fixed' needs rows for a linear machine, which has no support vectors; got rows=None")
    if not len(vectors) and kernel.name != "linear":  # C has no empty arrays.
        vectors, coefficients = np.zeros((1, vectors.shape[1])), np.zeros((1, coefficients.shape[1]))
    rows = vectors / factor + offset if rows is None else dense(rows)
    if kernel.stationary:  # In this unit of distances, kernel values are powers of two.
        centre, unit = vectors.mean(axis=0), (kernel.gamma * LOG2E) ** (1 / kernel.order)
        vectors, offset, factor = (vectors - centre) * unit, offset + centre / factor, factor * unit
    else:
        largest = np.abs((rows - offset) * factor).max(axis=0, initial=0.0)
        largest[largest == 0] = 1.0
        vectors, factor = vectors * largest * kernel.gamma, factor / largest
        coefficients = coefficients * largest[:, None] if kernel.name == "linear" else coefficients
    arrays = {"offset": offset, "factor": factor, "intercepts": machine.intercepts, "constant": kernel.coef0}
    arrays |= {"vectors": vectors, "coefficients": coefficients}
    fixed = {} if numbers == "float32" else _in_fixed_point(arrays, kernel, rows)
    names = [json.dumps(label, ensure_ascii=False) if isinstance(label, str) else int(label) for label in labels]
    return rendered(
        "machine.c.j2", **(arrays | fixed), name=name, numbers=numbers, kernel=kernel.name, degree=kernel.degree,
        pair_scores=machine.pair_scores, by_votes_alone=machine.by_votes_alone, labels=names, version=__version__,
        **calibration,
    )  # fmt: skip


def _in_fixed_point(arrays: dict[str, Any], kernel: Kernel, rows: Floats) -> dict[str, Any]:
    """Return the numbers times powers of two such that no sum overflows, and the exponents."""
    offset, vectors, coefficients, constant = (arrays[k] for k in ("offset", "vectors", "coefficients", "constant"))
    largest = np.maximum(np.abs(rows).max(axis=0, initial=0.0), np.abs(offset))
    input_bits = np.floor(29.9 - np.log2(np.where(largest == 0, 1.0, largest))).astype(int)
    # Prepared rows are at most 2^30. Without a centre, they are at most 1 within the range.
    bits = min(20, floor(29.5 - np.log2(np.abs(vectors).max(initial=1.0)))) if kernel.stationary else 28
    multiplier = arrays["factor"] * 2.0 ** (bits - input_bits)
    shift = 29 - np.floor(np.log2(multiplier)).astype(int)
    if bits < 10 or (shift < 0).any() or (shift > 62).any():
        raise ValueError("numbers='fixed' cannot represent this machine: its support vectors are too far from the rows")
    if kernel.name == "poly":  # Bases of powers are at most 1 within the range.
        size = max(float(np.abs(vectors).sum(axis=1).max() + constant), 1e-300)
        vectors, constant, coefficients = vectors / size, constant / size, coefficients * size**kernel.degree
    term_bits, vector_bits = 28 if kernel.name == "linear" else 30, bits if kernel.stationary else 30
    sums = np.abs(coefficients).sum(axis=0) + np.abs(arrays["intercepts"]) * 2.0 ** (term_bits - 30)
    coefficient_bits = min(40, floor(30.9 - np.log2(max(float(sums.max()), 1e-300))))
    score_bits = coefficient_bits + term_bits - 31
    power = np.polynomial.Chebyshev.interpolate(lambda x: 2.0**-x, 5, [0, 1]).convert(kind=np.polynomial.Polynomial)

    def scaled(values: Any, bits: Any) -> Any:
        return np.rint(values * 2.0**bits).astype(np.int64)

    return {
        "input_bits": input_bits, "shift": shift, "offset": scaled(offset, input_bits),
        "factor": scaled(multiplier, shift), "vectors": scaled(vectors, vector_bits), "constant": scaled(constant, 30),
        "coefficients": scaled(coefficients, coefficient_bits), "sum_bits": bits * kernel.order,
        "intercepts": scaled(arrays["intercepts"], coefficient_bits + term_bits), "score_bits": score_bits,
        "unit_sum": max(1, round(2.0**score_bits)), "polynomial": scaled(power.coef[::-1], 30).tolist(),
    }  # fmt: skip
