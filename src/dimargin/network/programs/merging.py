"""Rules by which a site merges its vector with those of its neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from dimargin.system.arrays import Floats


class MergeRule(ABC):
    """Abstract base class of the rules, each a frozen dataclass of its parameters."""

    @abstractmethod
    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the merged vector.

        Parameters
        ----------
        own : ndarray of any shape
        received : mapping from name to ndarray of the same shape
            The newest vector of every neighbour that has been heard.
        weights : mapping from name to float
            Weight of every neighbour in `received`; there may be others.

        Returns
        -------
        ndarray of the same shape
            `own` where fewer than `least` vectors were received.
        """

    @property
    def least(self) -> int:
        """Number of vectors that must have been received; with fewer of them the site keeps its own."""
        return 0

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        return


@dataclass(frozen=True)
class Mean(MergeRule):
    """Weighted mean ``x_i + sum_j w_j (x_j - x_i)``, which trusts everybody.

    Examples
    --------
    >>> import numpy as np
    >>> received = {"a": np.array([4.0]), "b": np.array([-8.0])}
    >>> Mean()(np.zeros(1), received, {"a": 0.25, "b": 0.25})
    array([-1.])
    """

    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the weighted mean."""
        merged = own.copy()
        for name in sorted(received):  # not in the order of arrival, in which the rounding would differ
            merged += weights[name] * (received[name] - own)
        return merged
