"""C-SVC as LIBSVM trains it: a machine for every pair of classes, in its order and with its report."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from dimargin.estimators import SVMClassifier
from dimargin.estimators.data import TrainingData
from dimargin.estimators.progress import Monitor
from dimargin.kernels.functions import Kernel
from dimargin.libsvm import LibsvmModel
from dimargin.libsvm.model import Expansion, one_vs_one, whole_labels
from dimargin.system.arrays import Floats, Indices
from dimargin.system.progress_lines import print_progress


class _Dots(Monitor):
    """Monitor that prints a dot for every check of the gap, as LIBSVM shows that it works."""

    def check(self, entry: dict[str, Any]) -> bool:
        print_progress(".", end="")
        return False


@dataclass(frozen=True)
class OneVsOne:
    """Trainer of a machine for every pair of classes, which is LIBSVM's way to more than two of them."""

    machine: SVMClassifier  # with an intercept, not fitted, of which every pair gets a copy
    weights: Mapping[int, float]  # factors on C, by label
    cache: int | None = None  # bytes for kernel rows; None is the machine's own choice

    def train(self, X: Any, y: NDArray[Any], quiet: bool = False, row_weights: Floats | None = None) -> LibsvmModel:
        """Train a machine for every pair of classes, and print LIBSVM's report of it unless `quiet`.

        Column j of `X`, an array or CSR array, is feature j. With kernel values computed beforehand, feature 0 is a
        row's place in their matrix, counted from 1, and feature j the value with place j. C is multiplied by
        `row_weights`, and rows of weight zero are left out. Raises ValueError for labels that are no whole numbers or
        all the same, and as `SVMClassifier.fit`. Warnings are printed in any case.
        """
        if row_weights is not None:
            kept = np.flatnonzero(row_weights)
            X, y, row_weights = X[kept], y[kept], row_weights[kept]
            if not len(kept):
                raise ValueError("one weight above 0 at least expected, but all rows have weight 0")
        labels, codes = _in_order(y)
        if len(labels) < 2:
            raise ValueError(f"two classes at least expected, but the label is {labels[0]} everywhere")
        for label in sorted(self.weights.keys() - set(labels.tolist())):
            print(f"WARNING: no row has the label of -w{label}", file=sys.stderr)
        weights = np.array([self.weights.get(label, 1.0) for label in labels.tolist()])[codes]
        weights = weights if row_weights is None else weights * row_weights
        pairs = []
        for a, b in combinations(range(len(labels)), 2):
            rows = np.flatnonzero((codes == a) | (codes == b))
            pairs.append(self._train_pair(rows, self._rows(X, rows), codes[rows] == a, weights[rows], quiet))
        if self.machine.kernel == "precomputed":
            model = one_vs_one(None, labels, X[:, [0]], pairs, zero_based=True)
        else:
            kernel = Kernel(self.machine.kernel, self.machine.gamma, self.machine.degree, self.machine.coef0)  # type: ignore[arg-type]
            model = one_vs_one(kernel, labels, X, pairs, zero_based=True)
        if not quiet:
            print_progress(f"Total nSV = {model.support_vectors.shape[0]}")
        return model

    def _rows(self, X: Any, rows: Indices) -> Any:
        """Return the data that the machine of some rows is fitted on."""
        if self.machine.kernel != "precomputed":
            return X if len(rows) == X.shape[0] else X[rows]
        indices = X[:, [0]][rows]
        indices = (indices.toarray() if sp.issparse(X) else indices).ravel()
        if not ((indices > 0) & (indices < X.shape[1]) & (indices == np.floor(indices))).all():
            raise ValueError(
                "feature 0 of every row has to be its place in the kernel matrix, counted from 1, and features 1 to n "
                "its kernel values"
            )
        values = X[np.ix_(rows, indices.astype(np.int64))]
        return values.toarray() if sp.issparse(X) else values

    def _train_pair(self, rows: Indices, X: Any, first: NDArray[np.bool_], weights: Floats, quiet: bool) -> Expansion:
        machine = clone(self.machine)
        if self.cache is not None:
            data = TrainingData(X, first.astype(np.int64), np.array([False, True]), weights, weights, rows, len(rows))
            needed = machine._memory_needed(len(data.y), int(data.X.size), len(data.labels))
            machine.set_params(memory_limit=needed + self.cache)
        if not quiet:
            machine._monitor = _Dots()
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always", ConvergenceWarning)
            machine.fit(X, first, weights)
        if not quiet:
            _report(machine, machine.C * weights)
        for complaint in complaints:
            print(f"WARNING: {complaint.message}", file=sys.stderr)
        return Expansion(rows[machine.support_], machine.dual_coef_[0], 0.0 - float(machine.intercept_[0]))

    def cross_validate(self, X: Any, y: NDArray[Any], n_folds: int, row_weights: Floats | None = None) -> float:
        """Return the share of rows that models trained without them predict right, on folds stratified if possible."""
        n_folds = min(n_folds, len(y))
        kind = StratifiedKFold if n_folds <= np.unique(y, return_counts=True)[1].max() else KFold
        correct = 0
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            for train, test in kind(n_folds, shuffle=True, random_state=0).split(X, y):
                train = train if row_weights is None else train[row_weights[train] > 0]
                known, own = y[train], None if row_weights is None else row_weights[train]
                if (known == known[0]).all():  # as LIBSVM's model of a single class predicts
                    predicted = known[0]
                else:
                    predicted = self.train(X[train], known, True, own).predict(X[test])
                correct += int(np.count_nonzero(y[test] == predicted))
        return correct / len(y)


def _in_order(y: NDArray[Any]) -> tuple[NDArray[np.int64], Indices]:
    """Return the labels in LIBSVM's order, and every row's place among them.

    The label that appears first comes first, but 1 before -1 where these are all.
    """
    labels, first, codes = np.unique(y, return_index=True, return_inverse=True)
    order = np.argsort(first)
    if labels.tolist() == [-1, 1]:
        order = np.array([1, 0])
    return whole_labels(labels[order]), np.argsort(order)[codes]


def _report(pair: SVMClassifier, bounds: Floats) -> None:
    """Print LIBSVM's lines about a pair, and the certificate."""
    sizes = np.abs(pair.dual_coef_[0])
    lines = [
        "*",
        f"optimization finished, #passes = {pair.n_iter_}",
        *([f"nu = {sizes.sum() / bounds.sum():f}"] if bounds.min() == bounds.max() else []),
        f"obj = {-pair.dual_objective_:f}, rho = {0.0 - pair.intercept_[0]:f}",
        f"nSV = {len(sizes)}, nBSV = {np.count_nonzero(sizes >= bounds[pair.support_])}",
        f"relative duality gap = {pair.duality_gap_:.2g}",
    ]
    print_progress("\n".join(lines))
