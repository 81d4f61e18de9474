"""DiP: a cascade over parts that preserve the distribution (DiP-SVM; with the ODM loss DiP-ODM).

    1  k-means on the features; each combination of cluster and label is spread evenly over p^L parts
    2  a cascade, see cascade.py: parts pass on their support vectors and, with ``relevance="margin"``,
       the rows near the local boundary

DiP-SVM clusters every class separately, and passes on the rows near the local boundary, its
*relevant vectors*, because the whole problem may need a row that no part needs. The threshold here
is the mean distance of the rows (docs/algorithms.md#distribution-preserving-cascades).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dimargin.shards.partition import InputClusterPartition, Partition
from dimargin.strategies.cascade import Cascade
from dimargin.strategies.passing import PassedOn, passed_on
from dimargin.strategies.solves import Solved
from dimargin.system.arrays import Indices


class DiP(Cascade):
    """Cascade over parts in which every cluster of the features is as frequent as in the whole.

    Parameters
    ----------
    rounds : int or None, default=None
        Maximum number of rounds, as in `Cascade`.
    relevance : {"margin", "sv"}, default="margin"
        Rows that parts pass on in the first round: "sv" are the support vectors; "margin" adds the
        rows no further from the local boundary than the mean distance of the part's rows, which
        makes a better first round.
    n_clusters : int, default=200
        Number of clusters of k-means.
    sample_size : int or None, default=None
        Number of rows from which clusters are computed; half of the rows, at most 20,000, when
        None.
    level_tol : float, default=0.1
        Relative gap to which parts above `stop_level` are solved in the first round, as in
        `Cascade`.

    Examples
    --------
    >>> from dimargin import DiP, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(3000, noise=0.1, random_state=0)
    >>> machine = ODMClassifier(strategy=DiP(), branching=2, n_levels=2, random_state=0).fit(X, y)
    >>> [(entry["level"], entry["partitions"]) for entry in machine.history_[:3]], machine.certificate_
    ([(2, 4), (1, 2), (0, 1)], 'global')
    """

    needs_rows = True
    coefficients: Literal["represented", "global"] = "represented"

    relevance: Literal["margin", "sv"]

    def __init__(
        self,
        rounds: int | None = None,
        relevance: Literal["margin", "sv"] = "margin",
        n_clusters: int = 200,
        sample_size: int | None = None,
        level_tol: float = 0.1,
    ) -> None:
        self.rounds = rounds
        self.relevance = relevance
        self.n_clusters = n_clusters
        self.sample_size = sample_size
        self.level_tol = level_tol

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_positive("n_clusters")
        self._check_count("sample_size")

    def memory_of_columns(self, n_rows: int, n_features: int) -> int:
        """Return the bytes of the dense cluster centres of two iterations of k-means."""
        return 8 * (2 * min(self.n_clusters, max(n_rows // 2, 1)) + 1) * n_features

    def _partition(self) -> Partition:
        return InputClusterPartition(self.n_clusters, self.sample_size)

    @property
    def _passed_on(self) -> PassedOn:
        return passed_on if self.relevance == "sv" else relevant


def relevant(solved: Solved) -> Indices:
    """Return the support vectors of a part, and its rows within the mean distance from its boundary."""
    solution, labels = solved.solution, solved.part.problem.labels
    # The distance to the boundary is |f| / |w|, where |w| is the same for all rows of a part.
    distance = np.abs(solution.margins + labels * solution.objectives.intercept[:, None])
    near = distance <= distance.mean(axis=1, keepdims=True)
    return np.union1d(passed_on(solved), np.flatnonzero(near.any(axis=0)))
