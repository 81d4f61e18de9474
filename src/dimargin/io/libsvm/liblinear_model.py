"""LIBLINEAR's text models: a header of keywords, then a line of weights for every feature.

They are read as strictly as LIBSVM's, so that a damaged file is an error that names the line.
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import LinearSVMRegressor
from dimargin.estimators.input_checks import check_finite
from dimargin.estimators.linear_machine import LinearMarginClassifier
from dimargin.estimators.wide_attributes import kept_of, on
from dimargin.io.data.chunks import CHUNK, DataFileError, short
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.opening import explained
from dimargin.io.libsvm.libsvm_model import NO_LABELS, whole_labels
from dimargin.io.libsvm.text_model import Header, number_text
from dimargin.io.models.model_format import ModelFileError
from dimargin.kernels.column_statistics import row_chunks
from dimargin.system.arrays import Floats
from dimargin.system.memory import memory_of_process, out_of_memory
from dimargin.system.writing import write_file

_KEYWORDS = {"solver_type", "nr_class", "label", "nr_feature", "rho", "bias", "w"}
_CLASSIFIERS = (
    "L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L1R_L2LOSS_SVC", "L1R_LR",
    "L2R_LR_DUAL",
)  # fmt: skip
_REGRESSORS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n"  # These exclude nan, inf, hexadecimal digits and underscores.


@dataclass(frozen=True, eq=False, repr=False)
class LiblinearModel:
    r"""A classifier or a regression in the form of LIBLINEAR's text models.

    Its decision values are ``weights @ x + bias * bias_weights``. With one of them, a positive value
    means the first label and others the second; with one per label, the label of the largest value is
    predicted, the first of them in a tie (R.-E. Fan et al., "LIBLINEAR: a library for large linear
    classification", JMLR 9, 2008, appendix). A regression predicts its decision value.

    Attributes
    ----------
    solver_type : str
        LIBLINEAR's name of the solver, such as "L2R_L2LOSS_SVC_DUAL".
    labels : ndarray of shape (n_classes,), int64
        Empty for a regression.
    weights : ndarray of shape (n_outputs, n_features)
        ``n_outputs`` is 1 for a regression and for two labels, except for "MCSVM_CS", else the number of labels.
    bias : float
        Value of the constant feature that LIBLINEAR appends to every row; negative without one.
    bias_weights : ndarray of shape (n_outputs,)
        Weights of that feature; zeros without one.

    Examples
    --------
    >>> import dimargin as dm
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = dm.LinearSVMClassifier(random_state=0).fit(X, y)
    >>> path = Path(mkdtemp()) / "iris.model"
    >>> dm.to_liblinear(machine, path)
    >>> model = dm.from_liblinear(path)
    >>> model
    <LiblinearModel: L2R_L1LOSS_SVC_DUAL, labels 0, 1, 2, 4 features, bias 1>
    >>> bool((model.predict(X) == machine.predict(X)).all())
    True
    """

    solver_type: str
    labels: NDArray[np.int64]
    weights: Floats
    bias: float
    bias_weights: Floats

    def __repr__(self) -> str:
        """Return the solver, the labels, and the number of features."""
        labels, n_features = ", ".join(map(str, self.labels.tolist())) or "none", self.weights.shape[1]
        bias = f", bias {self.bias:g}" if self.bias >= 0 else ""
        return f"<LiblinearModel: {self.solver_type}, labels {labels}, {n_features:,} features{bias}>"

    @property
    def is_regression(self) -> bool:
        """Return whether the model predicts numbers."""
        return self.solver_type in _REGRESSORS

    def decision_values(self, X: Any) -> Floats:
        """Return the decision values of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)

        Raises
        ------
        ValueError
            For missing or infinite values, or another number of columns than that of the features.
        """
        X = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        check_finite(X)
        if X.shape[1] != self.weights.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns, but the model has {self.weights.shape[1]} features")
        constant = self.bias * self.bias_weights if self.bias >= 0 else 0.0
        return np.asarray(X @ self.weights.T + constant)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, or numbers; parameters and errors as in `decision_values`."""
        values = self.decision_values(X)
        if self.is_regression:
            return values[:, 0]
        places = values.argmax(axis=1) if values.shape[1] == len(self.labels) else (values[:, 0] <= 0).astype(np.int64)
        return np.asarray(self.labels[places])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy of the predicted labels, or R2 of a regression, as scikit-learn does."""
        score = r2_score if self.is_regression else accuracy_score
        return float(score(y, self.predict(X), sample_weight=sample_weight))


# ---- writing ---------------------------------------------------------------------------------------------------------


def to_liblinear(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted linear machine as a LIBLINEAR text model, for LIBLINEAR's ``predict`` and other programs.

    Column j of X becomes feature j + 1. An intercept is written as the weight of a constant feature
    of the value 1, ``bias 1``. Numbers are written without loss. The file names a solver of
    LIBLINEAR with the same loss, and for a loss that LIBLINEAR does not have, "L2R_L2LOSS_SVC";
    predictions do not depend on it.

    Parameters
    ----------
    estimator : LinearSVMClassifier, LinearODMClassifier, GossipSVMClassifier or LinearSVMRegressor
        Classifiers must be fitted on integer labels. For two classes, a positive decision value
        stays positive and means the first label of the file.
    path : path-like
        An existing file is replaced, either completely or not at all, and keeps its mode; a new one
        is readable only by its owner (mode 0600).

    Raises
    ------
    ValueError
        If LIBLINEAR's format cannot represent the model: labels that are not integers of 32 bits, or
        2^31 features or more.
    TypeError
        For another kind of estimator, and for a pipeline, because the format does not store scaling.
    MemoryError
        If an array with a weight for every feature does not fit into memory.
    sklearn.exceptions.NotFittedError
    OSError
        If the file cannot be written.

    See Also
    --------
    from_liblinear : Read such a file.
    to_libsvm : Write a kernel machine as a LIBSVM text model.

    Examples
    --------
    >>> import dimargin as dm
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "two.model"
    >>> dm.to_liblinear(dm.LinearSVMClassifier().fit([[0.0, 1.0], [0.0, -1.0]], [5, 3]), path)
    >>> path.read_text().splitlines()[:5]
    ['solver_type L2R_L1LOSS_SVC_DUAL', 'nr_class 2', 'label 5 3', 'nr_feature 2', 'bias 1']
    """
    write_liblinear_model(liblinear_model(estimator), path)


def liblinear_model(estimator: Any) -> LiblinearModel:
    """Return the LIBLINEAR form of a fitted classifier; parameters and errors are those of `to_liblinear`."""
    if isinstance(estimator, Pipeline):
        raise TypeError(
            "LIBLINEAR models do not store scaling: pass only the machine, pipeline[-1], and scale rows to predict as "
            "the pipeline does"
        )
    if not isinstance(estimator, (LinearMarginClassifier, LinearSVMRegressor)):
        raise TypeError(
            f"expected a linear machine of dimargin, got {type(estimator).__name__}; to_libsvm writes kernel machines"
        )
    check_is_fitted(estimator)
    is_regressor, kept = isinstance(estimator, LinearSVMRegressor), kept_of(estimator, "coef_")
    labels = NO_LABELS if is_regressor else whole_labels(estimator.classes_)
    if kept.shape[1] >= 2**31:
        raise ValueError(f"LIBLINEAR models have fewer than 2^31 features, got {kept.shape[1]}")
    kind = "L2R_L1LOSS_SVC_DUAL" if getattr(estimator, "loss", None) == "hinge" else "L2R_L2LOSS_SVC"
    if is_regressor:
        kind = "L2R_L1LOSS_SVR_DUAL" if estimator.loss == "epsilon_insensitive" else "L2R_L2LOSS_SVR"
    weights, bias_weights = on(kept, None), estimator.intercept_
    if getattr(estimator, "multi_class", None) == "crammer_singer":
        kind = "MCSVM_CS"
        if len(labels) == 2:  # This kind of model has a vector for each of two classes.
            weights, bias_weights = (np.concatenate([0.5 * some, -0.5 * some]) for some in (weights, bias_weights))
    return LiblinearModel(
        solver_type=kind,
        # The class of positive decision values comes first.
        labels=labels[::-1] if len(labels) == 2 else labels,
        weights=weights,
        bias=1.0,
        bias_weights=bias_weights,
    )


def write_liblinear_model(model: LiblinearModel, path: str | os.PathLike[str]) -> None:
    """Write a model as LIBLINEAR's text, with the fewest digits that preserve each number."""
    header = [
        f"solver_type {model.solver_type}",
        f"nr_class {2 if model.is_regression else len(model.labels)}",
        *([] if model.is_regression else [" ".join(["label", *map(str, model.labels.tolist())])]),
        f"nr_feature {model.weights.shape[1]}",
        f"bias {number_text(model.bias)}",
        "w",
    ]
    parts = ["".join(f"{line}\n" for line in header)]
    parts += [_weight_lines(model.weights.T[rows]) for rows in row_chunks(model.weights.shape[1])]
    parts += [_weight_lines(model.bias_weights[None])] if model.bias >= 0 else []
    write_file(path, "".join(parts).encode(), private=True)


def _weight_lines(weights: Floats) -> str:
    return "".join(" ".join([*map(number_text, row), "\n"]) for row in weights.tolist())  # Lines end with a space.


# ---- reading ---------------------------------------------------------------------------------------------------------


def from_liblinear(path: str | os.PathLike[str]) -> LiblinearModel:
    """Read a text model of a classifier or regression that LIBLINEAR, `to_liblinear` or ``liblinear-train`` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    LiblinearModel
        The model, with the methods `predict` and `decision_values`; with an example.

    Raises
    ------
    ModelFileError
        If the file is not such a model, is damaged or truncated, or is that of a one-class machine.
        The message names the line.
    OSError
        If the file cannot be opened.

    See Also
    --------
    to_liblinear : Write such a file.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream, explained(path):
            return _read(path, stream)
    except DataFileError as error:
        raise ModelFileError(str(error)) from error


def _read(path: Path, stream: io.BufferedReader) -> LiblinearModel:
    header = Header(path, stream, "LIBLINEAR", _KEYWORDS, "w")
    if (kind := header.word("solver_type")) not in (known := _CLASSIFIERS + _REGRESSORS):
        header.fail("solver_type", f"expected that of a classifier or a regression, one of {', '.join(known)}")
    n_classes, n_features = header.integer("nr_class", 1), header.integer("nr_feature", 1)
    is_regression, bias = kind in _REGRESSORS, header.numbers("bias", 1)[0]
    for keyword in ["nr_class"] * (n_classes != 2) + ["label"] * ("label" in header.entries) if is_regression else []:
        header.fail(keyword, f"a model of {kind} has no labels and nr_class 2")
    labels = NO_LABELS if is_regression else header.labels(n_classes)
    n_outputs = 1 if n_classes == 2 and kind != "MCSVM_CS" else n_classes
    weights = _weights(header, stream, n_features + (bias >= 0), n_outputs)
    bias_weights = weights[:, n_features] if bias >= 0 else np.zeros(n_outputs)
    if max(abs(bias), 1.0) * float(np.abs(bias_weights).max()) == math.inf:
        header.fail("bias", "its product with the last line of weights is too large")
    return LiblinearModel(kind, labels, weights[:, :n_features], bias, bias_weights)


def _weights(header: Header, stream: io.BufferedReader, n_lines: int, n_outputs: int) -> Floats:
    """Return the numbers of the lines after the header, in shape (n_outputs, n_lines)."""
    size = os.fstat(stream.fileno()).st_size  # It is zero for a pipe.
    least = 2 * n_lines * n_outputs  # A number takes a digit and the space or line break behind it.
    if size and least > size - stream.tell():
        header.fail(
            "nr_feature",
            f"expected {n_lines} lines of {n_outputs} numbers after the line 'w', which take at least {least} bytes, "
            f"but the file has {size - stream.tell()} there",
        )
    parts, n_read, room = list[Floats](), 0, memory_of_process()
    for block in blocks_of_lines(stream, header.path, CHUNK, first_line=header.length + 1):
        *lines, cut = block.split(b"\n")
        if cut:
            raise ModelFileError(
                f"{header.path}, line {header.length + n_read + len(lines) + 1}: the line is truncated"
            )
        if n_read + len(lines) > n_lines:
            line = header.length + n_lines + 1
            raise ModelFileError(f"{header.path}, line {line}: expected {n_lines} lines after the line 'w', got more")
        parts.append(_numbers(header, lines, header.length + n_read + 1, n_outputs))
        n_read += len(lines)
        if 8 * n_read * n_outputs > room:  # Otherwise the operating system would end the process.
            raise ModelFileError(f"{header.path}: {out_of_memory('its content')}")
    if n_read < n_lines:
        raise ModelFileError(f"{header.path}: expected {n_lines} lines after the line 'w', got {n_read}")
    return np.concatenate(parts).T


def _numbers(header: Header, lines: list[bytes], first: int, n_outputs: int) -> Floats:
    """Return the numbers of lines, in shape (n_lines, n_outputs); `first` is the number of the first line."""
    flat = list[float]()
    for number, line in enumerate(lines, first):
        try:
            values = list(map(float, line.split()))
        except ValueError:
            values = []
        if len(values) != n_outputs or line.translate(None, _NUMBER_BYTES) or not all(map(math.isfinite, values)):
            raise ModelFileError(
                f"{header.path}, line {number}: {short(line.decode(errors='replace').strip())!r} is not a line of "
                f"weights: expected {n_outputs} finite number{'' if n_outputs == 1 else 's'}"
            )
        flat += values
    return np.array(flat, dtype=np.float64).reshape(-1, n_outputs)
