"""LIBSVM's models: a kernel expansion for every pair of classes, and a vote, or a single expansion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, gen_batches

from dimargin.estimators.input_checks import check_finite
from dimargin.estimators.training_data import canonical
from dimargin.io.data.libsvm import DENSE
from dimargin.io.libsvm.pairwise_coupling import coupled_probabilities
from dimargin.kernels.column_statistics import narrowed
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import Transform, UserKernel, kernel_matrix
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import effective_n_threads

CLASSIFIERS, REGRESSORS = ("c_svc", "nu_svc"), ("epsilon_svr", "nu_svr")
NO_LABELS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
SVM_TYPES = (*CLASSIFIERS, "one_class", *REGRESSORS)
N_DENSITY_MARKS = 10  # They separate LIBSVM's probabilities 0.001, 0.1, ..., 0.9, 0.999 of inliers.


@dataclass(frozen=True, eq=False, repr=False)
class LibsvmModel:
    r"""A classifier, regression or one-class machine in the form of LIBSVM's text models.

    The classes have the order of `labels`; every pair a, b with a before b has a decision value

        ``sum_{i in a} coefficients[b - 1, i] k(x_i, x) + sum_{i in b} coefficients[a, i] k(x_i, x) - rho[ab]``,

    summed over the support vectors of classes a and b. A positive value is a vote for a, others for
    b; the class with the most votes is predicted, the first of them in a tie (C.-C. Chang and C.-J.
    Lin, "LIBSVM: a library for support vector machines", ACM TIST 2011, section 7).

    Regressions and one-class machines have the single value ``sum_i coefficients[0, i] k(x_i, x) - rho[0]``, which is
    the predicted number, or positive for inliers.

    Attributes
    ----------
    kernel : Kernel or None
        "linear", "poly" or "rbf"; None for a precomputed kernel. Support vectors then have only
        feature 0, their index in the kernel matrix, counted from one.
    labels : ndarray of shape (n_classes,), int64
        Empty for regressions and one-class machines.
    rho : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Thresholds of the pairs (0, 1), (0, 2), ..., (1, 2), ...
    n_support : ndarray of shape (n_classes,), int64
        Number of support vectors of each class; those of a class are consecutive. Regressions and one-class machines
        have their number, and 0.
    coefficients : ndarray of shape (n_classes - 1, n_SV)
    support_vectors : CSR array of shape (n_SV, largest feature of any)
    zero_based : bool
        Whether the first column of the support vectors is feature 0 of the file, or feature 1.
    svm_type : {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"}
    probA, probB : ndarray of shape (n_pairs,), or None
        The probability of the first class of a pair with the decision value f is ``1 / (1 + exp(probA f + probB))``.
        Regressions have only `probA`, the scale of the Laplace distribution of their errors.
    density_marks : ndarray of shape (10,), or None
        Decision values that separate ranges of equal probability, of one-class machines.

    Examples
    --------
    >>> import dimargin as dm
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> machine = dm.SVMClassifier(C=10.0).fit(X, y)
    >>> path = Path(mkdtemp()) / "moons.model"
    >>> dm.to_libsvm(machine, path)
    >>> model = dm.from_libsvm(path)
    >>> bool((model.predict(X) == machine.predict(X)).all()), model.labels.tolist()
    (True, [1, 0])
    >>> bool(abs(model.decision_values(X)[:, 0] - machine.decision_function(X)).max() < 1e-5)
    True
    >>> model
    <LibsvmModel: kernel rbf (gamma 0.90001), labels 1, 0, 30 support vectors>
    >>> model.score(X, y) == machine.score(X, y)
    True
    """

    kernel: Kernel | None
    labels: NDArray[np.int64]
    rho: Floats
    n_support: Indices
    coefficients: Floats
    support_vectors: Any
    zero_based: bool = False
    svm_type: str = "c_svc"
    probA: Floats | None = None
    probB: Floats | None = None
    density_marks: Floats | None = None

    def __repr__(self) -> str:
        """Return the kernel, the labels and the number of support vectors."""
        kernel = self.kernel
        name = "precomputed" if kernel is None else kernel.name
        used = {"linear": (), "precomputed": (), "poly": ("gamma", "degree", "coef0")}.get(name, ("gamma",))
        values = ", ".join(f"{one} {getattr(kernel, one):.5g}" for one in used)
        kind = f"labels {', '.join(map(str, self.labels.tolist()))}" if self.is_classifier else self.svm_type
        n_support = int(self.n_support.sum())
        return f"<LibsvmModel: kernel {name}{values and f' ({values})'}, {kind}, {n_support:,} support vectors>"

    @property
    def is_classifier(self) -> bool:
        """Return whether the model predicts labels of classes."""
        return self.svm_type in CLASSIFIERS

    @property
    def is_regression(self) -> bool:
        """Return whether the model predicts numbers."""
        return self.svm_type in REGRESSORS

    @property
    def has_probabilities(self) -> bool:
        """Return whether the model has the parameters of LIBSVM's probability estimates."""
        return self.probA is not None or self.density_marks is not None

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices in `n_support` of the classes of every pair, in the order of `rho`."""
        return list(combinations(range(len(self.n_support)), 2))

    @property
    def n_columns(self) -> int:
        """Minimum number of columns of rows to predict."""
        if self.kernel is None:
            return int(self.support_vectors.data.max(initial=0.0)) + 1
        return int(self.support_vectors.shape[1])

    def decision_values(self, X: Any, n_jobs: int | None = None) -> Floats:
        """Return the decision values of all pairs of classes, or the only one, with kernel values in float64.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The files do not store the number of features: X may have any number that suffices for
            the support vectors. With a precomputed kernel, column j is the kernel value with row j,
            counted from one, and column 0 is not used.
        n_jobs : int, optional
            Number of threads; None uses all processors available to the process.

        Returns
        -------
        ndarray of shape (n_samples, n_classes * (n_classes - 1) / 2), or (n_samples, 1)
            A positive value means the first class of the pair.

        Raises
        ------
        ValueError
            For missing or infinite values, or fewer columns than the support vectors need.
        """
        X = check_array(X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=False)
        check_finite(X)
        X = canonical(X)
        n, width = X.shape
        if width < self.n_columns:
            raise ValueError(f"X has {width} columns, but a support vector uses column {self.n_columns}")
        values = np.repeat(-self.rho[:, None], n, axis=1)
        if not self.support_vectors.shape[0]:
            return values.T
        vectors = self.support_vectors
        if self.kernel is None:
            transform: Transform = UserKernel(None)
        else:
            vectors = widened(vectors, width)
            if not sp.issparse(X) and vectors.nnz >= DENSE * vectors.shape[0] * width:
                vectors = vectors.toarray()
            transform = RowTransform.fit(vectors, self.kernel).in_float64()
        sparse = self.kernel is not None and sp.issparse(vectors)
        of_class = np.split(np.arange(vectors.shape[0]), np.cumsum(self.n_support)[:-1])
        for batch in gen_batches(n, 65_536):  # Batches limit the scratch memory.
            part: Any = X[batch] if self.kernel is not None else _of_columns(X[batch], vectors.data.astype(np.int64))
            part = sp.csr_array(part) if sparse else part.toarray() if sp.issparse(part) else part
            matrix = kernel_matrix(transform, vectors, queries=part, n_threads=effective_n_threads(n_jobs))
            # One pass over the support vectors of a class computes the sums of all its pairs.
            sums = [matrix.multiply(own, self.coefficients[:, own]) for own in of_class]
            for p, (a, b) in enumerate(self.pairs):
                values[p, batch] += sums[a][b - 1] + sums[b][a]
        return np.ascontiguousarray(values.T)

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Predict labels by LIBSVM's vote, numbers, or 1 and -1; parameters and errors as in `decision_values`."""
        values = self.decision_values(X, n_jobs)
        if self.is_regression:
            return values[:, 0]
        if not self.is_classifier:
            return np.where(values[:, 0] > 0, 1, -1)
        votes = np.zeros((len(values), len(self.labels)), dtype=np.int64)
        for p, (a, b) in enumerate(self.pairs):
            first = values[:, p] > 0
            votes[:, a] += first
            votes[:, b] += ~first
        return np.asarray(self.labels[votes.argmax(axis=1)])

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> Floats:
        """Return LIBSVM's probabilities, of shape (n_samples, n_classes), or of inliers and outliers.

        The most probable class may differ from the predicted one. Parameters and errors are those of
        `decision_values`; ValueError is also raised if the file has no parameters of them, and for regressions.
        """
        if self.is_regression or not self.has_probabilities:
            reason = "it is a regression" if self.is_regression else "it was trained without them (svm-train -b 1)"
            raise ValueError(f"the model has no probabilities of classes: {reason}")
        values = self.decision_values(X, n_jobs)
        if self.density_marks is not None:
            n_below = np.searchsorted(self.density_marks, values[:, 0], side="right")
            inlier = np.clip(n_below / N_DENSITY_MARKS, 0.001, 0.999)
            return np.column_stack([inlier, 1 - inlier])
        assert self.probA is not None and self.probB is not None
        first = np.clip(expit(-(values * self.probA + self.probB)), 1e-7, 1 - 1e-7)  # These are LIBSVM's limits.
        # Batches limit the memory of the matrices of the pairs to 32 MB each.
        batches = gen_batches(len(first), max(1, 2**22 // len(self.labels) ** 2))
        return np.concatenate([coupled_probabilities(first[batch], len(self.labels)) for batch in batches])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy, or R^2 of a regression, as scikit-learn's estimators do."""
        measure = r2_score if self.is_regression else accuracy_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))


def _of_columns(X: Any, columns: Indices) -> Floats:
    """Return these columns of X as dense rows, with zeros for columns that X does not have."""
    X, kept = narrowed(X)
    indices = np.minimum(np.searchsorted(kept, columns), len(kept) - 1)
    values: Floats = X[:, indices].toarray() if sp.issparse(X) else X[:, indices]
    return np.where(kept[indices] == columns, values, 0.0)


def widened(X: Any, width: int) -> Any:
    """Return CSR rows with additional empty columns."""
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


class Expansion(NamedTuple):
    """Decision function of a pair of classes, positive for the first: ``sum_k coefficients[k] k(x_k, x) - rho``."""

    rows: Indices
    coefficients: Floats
    rho: float


def one_vs_one(
    kernel: Kernel | None, labels: NDArray[Any], X: Any, pairs: Sequence[Expansion], zero_based: bool = False
) -> LibsvmModel:
    """Combine the expansions of all pairs of classes into a model.

    A support vector is listed under the class that its coefficient favours, which for the hinge is
    its own. The expansions are in the order of the pairs (0, 1), (0, 2), ..., (1, 2), ..., and
    their `rows` are indices of rows of `X`, an array or CSR array of shape (n, n_features);
    `kernel` and `zero_based` are as in `LibsvmModel`. Raises ValueError for the Laplacian kernel,
    and for labels that are not integers.
    """
    kernel = libsvm_kernel(kernel)
    n, first = X.shape[0], [np.asarray(pair.coefficients) > 0 for pair in pairs]
    of_pair = list(zip(combinations(range(len(labels)), 2), first, strict=True))
    keys = np.concatenate([np.where(own, a, b) * n + p.rows for ((a, b), own), p in zip(of_pair, pairs, strict=True)])
    slots = np.concatenate([np.where(own, b - 1, a) for (a, b), own in of_pair])
    listed, indices = np.unique(keys, return_inverse=True)
    coefficients = np.zeros((len(labels) - 1, len(listed)))
    np.add.at(coefficients, (slots, indices), np.concatenate([p.coefficients for p in pairs]))
    return LibsvmModel(
        kernel=kernel,
        labels=whole_labels(labels),
        rho=np.array([p.rho for p in pairs], dtype=np.float64),
        n_support=np.bincount(listed // n, minlength=len(labels)),
        coefficients=coefficients,
        support_vectors=csr_rows(X[listed % n]),
        zero_based=zero_based,
    )


def libsvm_kernel(kernel: Kernel | None) -> Kernel | None:
    """Return the kernel; raises ValueError for one that LIBSVM does not have."""
    if kernel is not None and kernel.name not in ("linear", "poly", "rbf"):
        raise ValueError(f"kernel={kernel.name!r} has no LIBSVM form; LIBSVM has linear, poly and rbf")
    return kernel


def csr_rows(X: Any) -> Any:
    """Return rows as a CSR array of float64 without stored zeros."""
    X = sp.csr_array(X, dtype=np.float64)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def whole_labels(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels as LIBSVM stores them; raises ValueError unless all are integers of 32 bits."""
    limits = np.iinfo(np.int32)
    numbers = labels.dtype.kind in "biuf" and bool(((labels >= limits.min) & (labels <= limits.max)).all())
    if not numbers or (labels != labels.astype(np.int64)).any():
        raise ValueError(
            f"classes of LIBSVM models must be integers of 32 bits, got {labels.tolist()}; fit the machine on such "
            "labels (sklearn.preprocessing.LabelEncoder makes them)"
        )
    return labels.astype(np.int64)
