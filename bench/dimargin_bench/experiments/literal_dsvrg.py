"""acc-DiODM as the DiODM paper prints it, to be seen beside the algorithm that it means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

Floats = NDArray[np.float64]


class LiteralDSVRG(ClassifierMixin, BaseEstimator):
    """Algorithm 2 of the DiODM paper, word by word, for two classes; `dimargin.LinearDSVRG` is the mended one.

    What is literal: the lists of rows are never filled again, and the iterate never goes on from
    the last part to the first, so that all stages together take as many inner steps as there are
    rows; and line 15, as it is printed, multiplies by the step only the first of its three
    gradients. What the paper does not say is chosen: rows are dealt to the parts at random, stages
    are of the same length, and the step is the safe one of `dimargin.LinearSVRG`.

    Parameters
    ----------
    lam, upsilon, theta : float
        As in `dimargin.LinearODMClassifier`.
    n_stages : int, default=15
    n_partitions : int, default=8
    parenthesis : bool, default=False
        Whether the step multiplies all three gradients, as it has to.
    random_state : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        There is no intercept.
    objective_ : float
    """

    def __init__(
        self,
        lam: float = 1.0,
        upsilon: float = 0.5,
        theta: float = 0.1,
        n_stages: int = 15,
        n_partitions: int = 8,
        parenthesis: bool = False,
        random_state: int = 0,
    ) -> None:
        self.lam, self.upsilon, self.theta = lam, upsilon, theta
        self.n_stages, self.n_partitions, self.parenthesis = n_stages, n_partitions, parenthesis
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LiteralDSVRG:
        """Train on dense rows."""
        self.classes_ = np.unique(y)
        signed = np.where(y == self.classes_[1], 1.0, -1.0)[:, None] * X
        n = len(signed)
        step = 1 / (4 * (1 + self._factor * float((signed**2).sum(axis=1).max())))
        rows = np.random.default_rng(self.random_state).permutation(n)
        queue = np.concatenate([rows[k :: self.n_partitions] for k in range(self.n_partitions)])
        w = np.zeros(signed.shape[1])
        for steps in np.array_split(queue, self.n_stages):
            anchor, whole = w, self._gradient(w, signed)
            for i in steps:
                own, at_anchor = (self._gradient(point, signed[i : i + 1]) for point in (w, anchor))
                w = w - step * (own - at_anchor + whole) if self.parenthesis else w - step * own - at_anchor + whole
        self.coef_ = w[None]
        self.objective_ = float(w @ w / 2 + self._factor * np.mean(self._slack(w, signed)[1]) / 2)
        return self

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
