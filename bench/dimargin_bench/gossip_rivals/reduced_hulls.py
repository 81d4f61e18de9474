r"""Kim's distributed machine: sites tell one another the rows that hulls need, reduced ones where classes overlap.

The GADGET paper, section 3.2.4, describes it: classification is the search for the nearest points
of the hulls of both classes; where these overlap, of reduced hulls

    R(X, mu) = {sum_i a_i x_i :  sum_i a_i = 1,  0 <= a_i <= mu};

and sites send their neighbours the extreme points of the hull of what they hold, until nothing
changes (W. Kim, M. S. Stankovic, K. H. Johansson, H. J. Kim, "A distributed support vector machine
learning over wireless sensor networks", IEEE Transactions on Cybernetics 45, 2015). For hulls that
is ``SetGossip("hull")``. What is sent for reduced hulls it does not say, and their own extreme
points, means of 1/mu rows, would be too little and too many: too many, since ten rows have 252 means
of five, and too little, since with mu = 1/2 the mean of a row of one site and a row of another is in
the reduced hull of both sites' rows, and in no hull of points that either site sends.

Here sites send rows. With ``mu >= 1/m`` the extreme point of R(X, mu) in a direction is made of the m
rows that are farthest in it. Each of these is a vertex of the hull at the latest when m - 1 times the
vertices have been taken away, since each time one that is as far or farther goes. So the first m
layers of the hull have the same reduced hull as all rows, and among more rows no row comes to an
earlier layer: sites that pass on the first m layers of what they hold end with those of all rows.

The machine of the sites, ``alpha/2 |w|^2 + 1/N sum max(0, 1 - y w.x)``, is that of reduced hulls with
``mu = 1 / (N s)`` for the sum s of a class's coefficients, each at most 1/N: with ``m >= N s`` every
site ends with the machine of all rows. N s is a little more than the number of rows inside the
margin, which is hundreds where classes overlap much, and then the first m layers are nearly all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dimargin.system.arrays import Indices
from dimargin_bench.gossip_rivals.hull_vertices import hull_vertices
from dimargin_bench.gossip_rivals.row_selection import RowSelection, Rule
from dimargin_bench.gossip_rivals.set_gossip import SetGossip


def convex_layers(X: Any, n_layers: int) -> Indices:
    """Return the rows of the first layers: the vertices of the hull, those of what is left without them, and so on.

    Of equal rows each belongs to a layer of its own.

    Examples
    --------
    >>> convex_layers(np.array([[0.0], [3.0], [1.0], [2.0], [1.5], [3.0]]), 2).tolist()
    [0, 1, 2, 5]
    """
    left = np.arange(X.shape[0])
    found = [np.zeros(0, dtype=np.int64)]
    for _ in range(n_layers):
        vertices = hull_vertices(X[left])
        found.append(left[vertices])
        left = np.delete(left, vertices)
    return np.sort(np.concatenate(found))


@dataclass(frozen=True)
class ReducedHulls(SetGossip):
    """Gossip of the rows that reduced hulls need, for machines of Kim and others (2015).

    Parameters
    ----------
    selection : {"hull"}, default="hull"
    share : float
        Not used.
    tol : float, default=1e-4
        Relative duality gap of every machine that a site trains.
    n_layers : int, default=2
        Number of convex layers of each class that sites send: the reduced hulls have coefficients
        of ``1 / n_layers`` or more at most. One is ``SetGossip("hull")``, for classes that do not
        overlap.

    See Also
    --------
    SetGossip : Sites that send support vectors come to the same machine with fewer rows.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import ReducedHulls
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, 2, n_informative=2, n_redundant=0, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(
    ...     algorithm=ReducedHulls(n_layers=12), share_rows=True, n_sites=5, topology="ring", alpha=1e-2, random_state=0
    ... ).fit(X, y)
    >>> machine.status_, machine.duality_gap_ < 1e-2
    ('converged', True)
    """

    selection: Rule = "hull"
    n_layers: int = 2

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        super().validate()
        if self.selection != "hull":
            raise ValueError(f"selection must be 'hull', got {self.selection!r}")
        if self.n_layers < 1:
            raise ValueError(f"n_layers must be 1 or more, got {self.n_layers}")

    def row_selection(self) -> RowSelection:
        """Return the rule by which a site selects rows."""
        return LayerSelection(self.n_layers)


class LayerSelection(RowSelection):
    """Rows of the first convex layers of each class, of rows that only become more."""

    def __init__(self, n_layers: int) -> None:
        super().__init__("hull", 1.0)
        self._n_layers = n_layers

    def outer(self, X: Any) -> Indices:
        """Return which rows of a class are in the first layers."""
        return convex_layers(X, self._n_layers)
