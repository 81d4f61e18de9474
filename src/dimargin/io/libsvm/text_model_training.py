"""Training like LIBSVM's and LIBLINEAR's: their order of classes, and their report."""

from __future__ import annotations

import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from dimargin.estimators import LinearSVMClassifier, LinearSVMRegressor, SVMClassifier
from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.io.libsvm import LiblinearModel, LibsvmModel
from dimargin.io.libsvm.export import libsvm_model
from dimargin.io.libsvm.liblinear_model import liblinear_model
from dimargin.io.libsvm.libsvm_model import N_DENSITY_MARKS, NO_LABELS, csr_rows, whole_labels
from dimargin.kernels.column_statistics import with_constant
from dimargin.svm.platt import pair_sigmoids
from dimargin.system.arrays import TINY, Floats, Indices
from dimargin.system.progress_lines import print_progress


class _Dots(Monitor):
    """Monitor that prints a dot for every check of the gap, like LIBSVM."""

    def check(self, entry: dict[str, Any]) -> bool:
        print_progress(".", end="")
        return False


@dataclass(frozen=True)
class Trainer(ABC):
    """Trainer of a text model, by default of integer labels, with cross-validation."""

    machine: Any  # The machine is not fitted.
    weights: Mapping[int, float]  # C is multiplied by these weights of labels.
    is_classifier: bool = field(default=True, kw_only=True)  # Whether y are labels of classes.

    def train(self, X: Any, y: NDArray[Any], quiet: bool = False, row_weights: Floats | None = None) -> Any:
        """Train on rows, and print a report of the fit unless `quiet`.

        C is multiplied by `row_weights`, and rows of weight zero are left out. Raises ValueError for
        labels that are not integers or all equal, and the errors of the machine's `fit`. Warnings
        are always printed.
        """
        if row_weights is not None:
            kept = np.flatnonzero(row_weights)
            X, y, row_weights = X[kept], y[kept], row_weights[kept]
            if not len(kept):
                raise ValueError("expected at least one weight above 0, but all rows have weight 0")
        if not self.is_classifier:
            own = np.ones(len(y)) if row_weights is None else row_weights
            return self._model(X, NO_LABELS, np.asarray(y, dtype=np.float64), own, quiet)
        labels, codes = _in_order(y)
        if len(labels) < 2:
            raise ValueError(f"expected at least two classes, but all labels are {labels[0]}")
        for label in sorted(self.weights.keys() - set(labels.tolist())):
            print(f"WARNING: no row has the label of -w{label}", file=sys.stderr)
        weights = np.array([self.weights.get(label, 1.0) for label in labels.tolist()])[codes]
        return self._model(X, labels, codes, weights if row_weights is None else weights * row_weights, quiet)

    @abstractmethod
    def _model(self, X: Any, labels: NDArray[np.int64], codes: Any, weights: Floats, quiet: bool) -> Any:
        """Return the model, whose classes have the order of `labels`; `codes` are indices in it, or the numbers y."""

    def _fit(self, machine: Any, X: Any, codes: Indices, weights: Floats, quiet: bool) -> None:
        """Fit a machine whose classes have the order of their codes, or a regressor."""
        with observed(machine, None if quiet else _Dots()), _printed_warnings():
            # For two classes, a positive decision value means the first one here, and the second in
            # the library's machines.
            machine.fit(X, codes if not self.is_classifier or codes.max() > 1 else 1 - codes, weights)

    def held_out(self, X: Any, y: NDArray[Any], n_folds: int, row_weights: Floats | None = None) -> Floats:
        """Return cross-validated predictions, on stratified folds of classes if possible."""
        n_folds, predicted = min(n_folds, len(y)), np.empty(len(y))
        is_stratified = self.is_classifier and n_folds <= np.unique(y, return_counts=True)[1].max()
        kind = StratifiedKFold if is_stratified else KFold
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            for train, test in kind(n_folds, shuffle=True, random_state=0).split(X, y):
                train = train if row_weights is None else train[row_weights[train] > 0]
                known, own = y[train], None if row_weights is None else row_weights[train]
                if self.is_classifier and (known == known[0]).all():  # LIBSVM's model of a single class predicts it.
                    predicted[test] = known[0]
                else:
                    predicted[test] = self.train(X[train], known, True, own).predict(X[test])
        return predicted


@contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print warnings of convergence in the block."""
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    for complaint in complaints:
        print(f"WARNING: {complaint.message}", file=sys.stderr)


@dataclass(frozen=True)
class OneVsOne(Trainer):
    """Trainer of a machine for every pair of classes, like LIBSVM.

    Column j of X, an array or CSR array, is feature j. With a precomputed kernel, feature 0 is the
    index of a row in the kernel matrix, counted from 1, and feature j the kernel value with row j.
    """

    machine: SVMClassifier  # The machine has an intercept and is not fitted.
    cache: int | None = None  # Bytes for kernel rows; None is the machine's default.
    has_probabilities: bool = False

    def _model(self, X: Any, labels: NDArray[np.int64], codes: Indices, weights: Floats, quiet: bool) -> LibsvmModel:
        values, machine = _values(X, self.machine), clone(self.machine).set_params(multi_class="one_vs_one")
        if self.cache is not None:
            plan = machine.fit_plan(values.shape[0], values.shape[1], int(values.size), np.bincount(codes).tolist())
            machine.set_params(memory_limit=plan.memory + self.cache)
        self._fit(machine, values, codes, weights, quiet)
        model = replace(_numbered(libsvm_model(machine), X), labels=labels)
        if self.has_probabilities:
            probA, probB = pair_sigmoids(partial(_trained_on, machine, values), values, codes, weights, 0)
            model = replace(model, probA=probA, probB=probB)
        if not quiet:
            _report(machine, model, codes, machine.C * weights)
        return model


@dataclass(frozen=True)
class OfAnyType(Trainer):
    """Trainer of NuSVC, OneClassSVM, SVR or NuSVR of `dimargin.svm`, for X as in `OneVsOne`."""

    has_probabilities: bool = False

    def _model(self, X: Any, labels: NDArray[np.int64], codes: Any, weights: Floats, quiet: bool) -> LibsvmModel:
        machine = clone(self.machine)
        with _printed_warnings():
            machine.fit(_values(X, machine), codes, sample_weight=weights)
        model = replace(_numbered(libsvm_model(machine), X), labels=labels)
        if self.has_probabilities:
            model = replace(model, **self._probabilities(machine, model, X, codes, weights))
        if not quiet:
            lines = ["*", f"optimization finished, #passes = {machine._machine.n_iter_}"]
            lines += [] if self.is_classifier else [f"obj = {-machine.dual_objective_:f}, rho = {model.rho[0]:f}"]
            lines += [f"relative duality gap = {machine.duality_gap_:.2g}", f"Total nSV = {len(machine.support_)}"]
            print_progress("\n".join(lines))
        return model

    def _probabilities(self, machine: Any, model: LibsvmModel, X: Any, y: Any, weights: Floats) -> dict[str, Any]:
        """Return LIBSVM's parameters of probabilities."""
        if self.is_classifier:
            values = _values(X, machine)
            found = pair_sigmoids(machine.trainer_on(values), values, y, weights, 0)
            return dict(zip(("probA", "probB"), found, strict=True))
        if model.is_regression:
            errors = np.abs(y - replace(self, has_probabilities=False).held_out(X, y, 5, weights))
            # LIBSVM leaves out errors above five standard deviations of the Laplace distribution.
            return {"probA": errors[errors <= 5 * math.sqrt(2) * errors.mean()].mean(keepdims=True)}
        decided = np.sort(model.decision_values(X)[:, 0])
        below, half, parts = int(np.searchsorted(decided, 0.0)), N_DENSITY_MARKS // 2, np.arange(N_DENSITY_MARKS // 2)
        if min(below, above := len(decided) - below) < half:
            raise ValueError(f"-b 1 needs at least {half} rows inside and {half} outside; omit it")
        places = np.append(parts * below // half, below - 1 + (parts + 1) * above // half)
        bounds = np.insert(decided[places], half, 0.0)
        return {"density_marks": (bounds[:-1] + bounds[1:]) / 2}


def _numbered(model: LibsvmModel, X: Any) -> LibsvmModel:
    """Return a model of rows whose first column is feature 0; with a precomputed kernel, it is the row's index."""
    if model.kernel is None:
        indices = model.support_vectors.data.astype(np.int64) - 1
        model = replace(model, support_vectors=csr_rows(X[:, [0]][indices]))
    return replace(model, zero_based=True)


def _values(X: Any, machine: Any) -> Any:
    """Return the rows, or with a precomputed kernel the square matrix of their values."""
    if machine.kernel != "precomputed":
        return X
    indices = X[:, [0]]
    indices = (indices.toarray() if sp.issparse(X) else indices).ravel()
    if not ((indices > 0) & (indices < X.shape[1]) & (indices == np.floor(indices))).all():
        raise ValueError(
            "feature 0 of every row must be its index in the kernel matrix, counted from 1, and features 1 to n "
            "its kernel values"
        )
    values = X[:, indices.astype(np.int64)]
    return values.toarray() if sp.issparse(X) else values


@dataclass(frozen=True)
class OneVsRest(Trainer):
    """Trainer of a linear machine for every class against the rest, or for all together, like LIBLINEAR.

    The machine may be a regressor as well.
    """

    machine: LinearSVMClassifier | LinearSVMRegressor
    solver_type: str = "L2R_L1LOSS_SVC_DUAL"  # LIBLINEAR's name of the solver, which the model names.
    bias: float = -1.0  # Value of the constant feature; negative without one, or with an intercept of the machine.

    def _model(self, X: Any, labels: NDArray[np.int64], codes: Any, weights: Floats, quiet: bool) -> LiblinearModel:
        machine, n_features = clone(self.machine), X.shape[1]
        self._fit(machine, with_constant(X, self.bias if self.bias >= 0 else None), codes, weights, quiet)
        if not quiet:
            values = zip(*map(np.atleast_1d, (machine.objective_, machine.dual_objective_)), strict=True)
            lines = ["*", f"optimization finished, #passes = {machine.n_iter_}"]
            for primal, dual in values:
                gap = (primal - dual) / max(primal, TINY)
                lines += [f"Objective value = {primal:f}", f"relative duality gap = {gap:.2g}"]
            print_progress("\n".join(lines))
        model = replace(liblinear_model(machine), labels=labels, solver_type=self.solver_type)
        if machine.fit_intercept:
            return model
        bias_weights = model.weights[:, n_features] if self.bias >= 0 else model.bias_weights
        return replace(model, weights=model.weights[:, :n_features], bias=self.bias, bias_weights=bias_weights)


def regression_scores(predicted: Floats, y: Floats) -> tuple[float, float]:
    """Return the mean squared error and the squared correlation coefficient, NaN for constant numbers."""
    a, b = predicted - predicted.mean(), y - y.mean()
    squares = float((a @ a) * (b @ b))
    return float(np.mean((predicted - y) ** 2)), float(a @ b) ** 2 / squares if squares > 0 else math.nan


def _in_order(y: NDArray[Any]) -> tuple[NDArray[np.int64], Indices]:
    """Return the labels in LIBSVM's order, and the index of every row's label in it.

    Labels are in the order of their first rows, except that 1 comes before -1 if there are no
    others.
    """
    labels, first, codes = np.unique(y, return_index=True, return_inverse=True)
    order = np.argsort(first)
    if labels.tolist() == [-1, 1]:
        order = np.array([1, 0])
    return whole_labels(labels[order]), np.argsort(order)[codes]


def _report(machine: SVMClassifier, model: LibsvmModel, codes: Indices, bounds: Floats) -> None:
    """Print LIBSVM's lines about every pair, with its gap; `bounds` are those of coefficients."""
    support = machine.support_[np.lexsort((machine.support_, codes[machine.support_]))]
    sizes, parts = np.abs(model.coefficients), np.split(np.arange(len(support)), np.cumsum(model.n_support)[:-1])
    primal, dual = np.atleast_1d(machine.objective_), np.atleast_1d(machine.dual_objective_)
    gaps = (primal - dual) / np.maximum(primal, TINY)
    lines = ["*", f"optimization finished, #passes = {machine.n_iter_}"]
    for p, (a, b) in enumerate(model.pairs):
        own = np.concatenate([sizes[b - 1, parts[a]], sizes[a, parts[b]]])
        limits = bounds[support[np.concatenate([parts[a], parts[b]])]]
        of_pair = bounds[(codes == a) | (codes == b)]
        if of_pair.min() == of_pair.max():
            lines.append(f"nu = {own.sum() / of_pair.sum():f}")
        lines += [
            f"obj = {-dual[p]:f}, rho = {model.rho[p]:f}",
            f"nSV = {np.count_nonzero(own)}, nBSV = {np.count_nonzero(own >= limits)}",
            f"relative duality gap = {gaps[p]:.2g}",
        ]
    print_progress("\n".join([*lines, f"Total nSV = {len(support)}"]))


def _trained_on(machine: SVMClassifier, X: Any, rows: Indices, codes: Indices, weights: Floats) -> SVMClassifier:
    """Return a machine with the same parameters that is trained on some of the rows."""
    own = X[np.ix_(rows, rows)] if machine.kernel == "precomputed" else X[rows]
    fresh: SVMClassifier = clone(machine)
    fresh.fit(own, codes, sample_weight=weights)
    return fresh
