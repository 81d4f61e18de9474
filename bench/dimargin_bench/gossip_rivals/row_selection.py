"""Which of the rows that a site holds it tells others of: the rules of MSG-SVM, SSG-SVM and ASG-SVM.

* "support" (MSG, minimum selection gossip): the support vectors of the site's machine.
* "hull" (SSG, sufficient selection gossip): the vertices of the convex hull of each class. A machine with a hard margin
  has the same constraints with these rows as with all. Where classes overlap, the hinge loss counts
  rows inside the hulls too, so that the rule is not lossless there.
* "ranked" (ASG, adaptive selection gossip): the selected set alone, that is of either class the rows
  nearest to the plane, by ``|f(x)| / |w|``, up to a share of them and one at least. The GADGET paper
  has "a selection function to rank training vectors in order of importance in the learning process"
  that "selects data points from both classes" (section 3.2.4), and neither it nor the abstract of
  the rival's own paper says which: this one is ours. The threshold that the GADGET paper reports is
  0.001% of the local rows, which is less than one row; it tried up to 3%.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats, Indices
from dimargin_bench.gossip_rivals.hinge_machine import HingeMachine
from dimargin_bench.gossip_rivals.hull_vertices import hull_vertices

Rule = Literal["support", "hull", "ranked"]
RULES: tuple[Rule, ...] = ("support", "hull", "ranked")


class RowSelection:
    """Rows that a site selects, by one of the rules, of rows that only become more."""

    def __init__(self, rule: Rule, share: float) -> None:
        self._rule, self._share = rule, share
        self._vertices = np.zeros(0, dtype=np.int64)
        self._seen = 0  # rows of which these are the vertices

    def of(self, rows: HingeRows, machine: HingeMachine) -> Indices:
        """Return the indices of the selected rows, ascending."""
        if self._rule == "hull":
            return self._hulls(rows)
        if self._rule == "ranked":
            return np.unique(self._nearest(rows, machine.weights))
        return np.flatnonzero(np.asarray(machine.dual > 0).max(axis=0, initial=False))

    def _hulls(self, rows: HingeRows) -> Indices:
        """Return the outer rows of all classes; a row that was none before is none among more rows."""
        if self._seen < rows.n_rows:
            pool = np.concatenate([self._vertices, np.arange(self._seen, rows.n_rows)])
            codes = codes_of(rows.signs[:, pool])
            parts = (pool[codes == code] for code in np.unique(codes))
            found = [part[self.outer(rows.X[part])] for part in parts]
            self._vertices, self._seen = np.sort(np.concatenate(found)), rows.n_rows
        return self._vertices

    def outer(self, X: Any) -> Indices:
        """Return which rows of a class are vertices of their hull."""
        return hull_vertices(X)

    def _nearest(self, rows: HingeRows, weights: Floats) -> Indices:
        """Return the rows nearest to the planes, of either side; rows before others that are equally near."""
        lengths = np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-300)
        distances = np.abs((rows.X @ weights.T).T) / lengths
        nearest: list[Indices] = [np.zeros(0, dtype=np.int64)]
        for distance, signs in zip(distances, rows.signs, strict=True):
            for sign in (-1.0, 1.0):
                side = np.flatnonzero(signs == sign)
                size = max(1, int(self._share * len(side)))
                nearest.append(side[np.argsort(distance[side], kind="stable")[:size]])
        return np.concatenate(nearest)


def codes_of(signs: Floats) -> Floats:
    """Return the classes of rows as numbers: the sign of a single output, or the number of the output that is plus one.

    Parameters
    ----------
    signs : ndarray of shape (n_outputs, n)

    Returns
    -------
    ndarray of shape (n,)
    """
    return signs[0] if len(signs) == 1 else np.asarray(signs.argmax(axis=0), dtype=np.float64)


def signs_of(codes: Floats, n_outputs: int) -> Floats:
    """Return the signs of which `codes_of` makes these codes, of shape (n_outputs, n)."""
    if n_outputs == 1:
        return codes[None]
    return np.where(codes == np.arange(n_outputs)[:, None], 1.0, -1.0)
