"""acc-DiODM as the DiODM paper prints it, to be seen beside the algorithm that it means."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import ODMLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part
from dimargin.system.arrays import Floats, Indices
from dimargin_bench.experiments.literal_diodm import LandmarkPartition


class LiteralDSVRG(ClassifierMixin, BaseEstimator):
    """Algorithm 2 of the DiODM paper, word by word, for two classes; `dimargin.LinearDSVRG` is the mended one.

    What is literal: parts have the same share of every landmark's stratum (lines 1 and 2); the lists
    of rows are never filled again (lines 3 and 16), and the iterate never continues from the last
    part with the first (line 19), so that all stages together take as many inner steps as there are
    rows; and line 15, as it is printed, multiplies by the step only the first of its three
    gradients. What the paper does not say is chosen: there are 50 landmarks, stages are of the same
    length, and the step is the safe one of `dimargin.LinearSVRG`.

    Parameters
    ----------
    lam, upsilon, theta : float
        As in `dimargin.LinearODMClassifier`.
    n_stages : int, default=15
    n_partitions : int, default=8
    n_landmarks : int, default=50
        Landmarks at most: the linear kernel has no more than there are features.
    parenthesis : bool, default=False
        Whether the step multiplies all three gradients, as it has to.
    random_state : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        There is no intercept.
    objective_ : float
    parts_ : list of ndarray
        Rows of every part, in the order in which they are taken.
    """

    def __init__(
        self,
        lam: float = 1.0,
        upsilon: float = 0.5,
        theta: float = 0.1,
        n_stages: int = 15,
        n_partitions: int = 8,
        n_landmarks: int = 50,
        parenthesis: bool = False,
        random_state: int = 0,
    ) -> None:
        self.lam, self.upsilon, self.theta = lam, upsilon, theta
        self.n_stages, self.n_partitions, self.n_landmarks = n_stages, n_partitions, n_landmarks
        self.parenthesis, self.random_state = parenthesis, random_state

    def fit(self, X: Any, y: Any) -> LiteralDSVRG:
        """Train on dense rows."""
        self.classes_ = np.unique(y)
        signed = np.where(y == self.classes_[1], 1.0, -1.0)[:, None] * X
        step = 1 / (4 * (1 + self._factor * float((signed**2).sum(axis=1).max())))
        self.parts_ = self._parts(X, y == self.classes_[1])
        w = np.zeros(signed.shape[1])
        for steps in np.array_split(np.concatenate(self.parts_), self.n_stages):
            anchor, whole = w, self._gradient(w, signed)
            for i in steps:
                own, at_anchor = (self._gradient(point, signed[i : i + 1]) for point in (w, anchor))
                w = w - step * (own - at_anchor + whole) if self.parenthesis else w - step * own - at_anchor + whole
        self.coef_ = w[None]
        self.objective_ = float(w @ w / 2 + self._factor * np.mean(self._slack(w, signed)[1]) / 2)
        return self

    def _parts(self, X: Any, is_positive: NDArray[np.bool_]) -> list[Indices]:
        """Return the rows of every part (lines 1 and 2), in the random order in which they are taken (line 14)."""
        rng, n = np.random.default_rng(self.random_state), len(X)
        order = rng.permutation(n)  # The partition takes rows in the order in which they are.
        labels = np.where(is_positive[order], 1.0, -1.0)[None]
        kernel = KernelMatrix.of(X[order], Kernel("linear"))
        loss = ODMLoss(self.lam, self.upsilon, self.theta)
        whole = Part(DualProblem(labels, np.ones(n), loss, n, n, kernel=kernel), np.arange(n))
        rows = LocalEngine(1, Event()).scatter([whole])
        dealt = LandmarkPartition(self.n_landmarks, sample_size=n).deal(rows, n, self.n_partitions, rng)
        return [rng.permutation(order[part.indices]) for part in dealt.parts.collect()]

    @property
    def _factor(self) -> float:
        return self.lam / (1 - self.theta) ** 2

    def _slack(self, w: Floats, signed: Floats) -> tuple[Floats, Floats]:
        """Return derivatives by the margins, without the factor, and twice the losses."""
        margins = signed @ w
        short, over = np.minimum(margins - 1 + self.theta, 0.0), np.maximum(margins - 1 - self.theta, 0.0)
        return short + self.upsilon * over, short**2 + self.upsilon * over**2

    def _gradient(self, w: Floats, signed: Floats) -> Floats:
        gradient: Floats = w + self._factor * (self._slack(w, signed)[0] @ signed) / len(signed)
        return gradient

    def predict(self, X: Any) -> Any:
        """Return the class on whose side of the plane a row is."""
        return self.classes_[(X @ self.coef_[0] > 0).astype(int)]
