"""Base of LLSVM and LTPU: centres by k-means, kernel values with them as features, and a linear machine."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state, gen_batches
from threadpoolctl import threadpool_limits

from dimargin import LinearNewton, LinearSVMClassifier
from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory
from dimargin.system.threads import single_threaded_blas
from dimargin_bench.kernel_rivals.checked_rows import ROWS_AT_ONCE, Rival, query_rows, width

_BYTES = 24  # of a feature: 8, and 16 as LIBLINEAR stores it


@documented
@dataclass(eq=False, repr=False)
class CenterClassifier(Rival):
    """Base class of linear machines on kernel values with centres; subclasses say what is made of these values.

    Parameters
    ----------
    n_centers : int, default=1000
        Clusters of k-means; where no more rows differ, these rows are the centres. The features,
        ``n_samples * n_centers`` numbers, are held in memory.
    %(C, gamma)s
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Of the linear machine. `dimargin.LinearSVMClassifier` minimises the squared hinge by Newton's
        method with a Hessian that is formed: on 35,000 rows of ijcnn1 and 3,000 centres it takes half
        of LIBLINEAR's time to an objective that is 15% smaller. LIBLINEAR minimises the hinge by
        coordinate descent in the dual, where C is large better with ``tol=0.1``, its own default.
    tol : float, default=1e-4
        Of the linear machine.
    max_iter : int, default=10000
        Of the linear machine, which warns when they do not suffice.
    random_state : int, RandomState or None, default=None
        Seed of k-means, and of the order of LIBLINEAR's steps in the dual.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, gamma_)s
    centers_ : ndarray of shape (n_centers, n_features_in_)
    machine_ : LinearSVMClassifier or LinearSVC
        Without intercept, as LIBLINEAR's default is.
    n_iter_ : int
        Of `machine_`.
    """

    n_centers: int = 1000
    C: float = 1.0
    gamma: str | float = "scale"
    loss: str = "squared_hinge"
    tol: float = 1e-4
    max_iter: int = 10_000
    random_state: Any = None

    def _check_parameters(self) -> None:
        check_number("n_centers", self.n_centers, 1, low_included=True, whole=True)
        check_number("C", self.C, 0)
        if self.loss not in ("squared_hinge", "hinge"):
            raise ValueError(f"loss must be 'squared_hinge' or 'hinge', got {self.loss!r}")

    def _train(self, X: Floats, y: NDArray[Any]) -> None:
        needed = _BYTES * len(X) * min(self.n_centers, len(X))
        check_memory(needed, None, f"{type(self).__name__} with n_centers={self.n_centers}", "use fewer centres")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with single_threaded_blas():
            self.gamma_ = width(self.gamma, X)
            self.centers_ = centers(X, int(self.n_centers), seed)
            self.map_ = self._map()
            self.machine_ = self._machine(seed).fit(self._features(X), y)
        self.classes_, self.n_iter_ = self.machine_.classes_, int(self.machine_.n_iter_)

    def _machine(self, seed: int) -> Any:
        """Return the linear machine, which one thread trains."""
        options: dict[str, Any] = {
            "C": self.C, "fit_intercept": False, "tol": self.tol, "max_iter": self.max_iter, "random_state": seed
        }  # fmt: skip
        if self.loss == "hinge":
            return LinearSVC(loss="hinge", **options)
        return LinearSVMClassifier(loss=self.loss, solver=LinearNewton("explicit"), n_jobs=1, **options)

    @abstractmethod
    def _map(self) -> Floats | None:
        """Return the matrix by which kernel values with the centres become features, None if they are features."""

    def _features(self, X: Floats) -> Floats:
        features = np.empty((len(X), len(self.centers_) if self.map_ is None else self.map_.shape[1]))
        for batch in gen_batches(len(X), ROWS_AT_ONCE):
            values = rbf_kernel(X[batch], self.centers_, gamma=self.gamma_)
            features[batch] = values if self.map_ is None else values @ self.map_
        return features

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        X = query_rows(self, X)
        batches = gen_batches(len(X), ROWS_AT_ONCE)
        with single_threaded_blas():
            return np.concatenate([self.machine_.decision_function(self._features(X[batch])) for batch in batches])


def centers(X: Floats, n_centers: int, seed: int) -> Floats:
    """Return the centres of k-means, or the different rows themselves where there are no more than `n_centers`.

    One thread computes them, because sums of several threads are rounded in another order every
    time.
    """
    different = np.unique(X, axis=0)
    if len(different) <= n_centers:
        return different
    with threadpool_limits(limits=1, user_api="openmp"):
        return np.asarray(KMeans(n_centers, n_init=1, max_iter=20, random_state=seed).fit(X).cluster_centers_)
