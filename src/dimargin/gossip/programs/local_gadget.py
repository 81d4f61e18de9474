r"""GADGET with the gradient of each site's own rows: the iteration of its paper, with the printed errors put right.

    (a)   a batch of B_i of its rows (one, some, all)
    (b,c) L_i = 1/|B_i| sum over rows of margin below one of y x        (the paper omits the condition)
    (e)   w_i <- (1 - alpha eta_t) w_i + eta_t L_i,  eta_t = 1/(alpha t)
    (f,h) project on |w_i| <= 1/sqrt(alpha), if asked to                (the paper takes the norm of another vector)
    (g)   Push-Vector of (n_i w_i, n_i), in some number of rounds: w_i = the mean, weighted by rows
                                                                        (unweighted, it solves another problem)

The mass of Push-Vector is kept between iterations instead of being distributed from scratch: with
few rounds per iteration, the mean of all w_i would depend on the degrees of the sites. Every site
is pulled to its own rows, by ``eta_t |L_i - L|``, which a few rounds of gossip do not correct if
rows differ from site to site.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.gossip.programs.exchange import bounded
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.schema import Schema
from dimargin.problems.hinge import HingeEvaluation, HingeRows
from dimargin.system.arrays import Floats


class LocalGadget(Gadget):
    """Learner whose mass is ``n w`` for the weights w in place of gradients; its messages have no iterate."""

    _is_linear = False  # Steps must shrink, since sites do not know the gradient of all rows.
    _sent_iterate = np.zeros((0, 0))

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Start with the weights that were learnt under the earlier schema, if they are of use."""
        super().inherit(state, schema, before)
        self._set_mass(self.rows.n_rows)

    def _set_mass(self, n_rows: float) -> None:
        self._sums.pull[:] = n_rows * self.weights

    def _undo_edge(self, name: str) -> None:
        super()._undo_edge(name)
        if self._sums.rows > 0:  # Undoing the edge must not change the iterate.
            self._set_mass(self._sums.rows)

    def _average_with_neighbours(self) -> None:
        self.weights = bounded(self._means.pull, self.settings.norm_bound)

    def _step(self) -> None:
        """Take step (e) of the paper on the mass."""
        eta = self._step_size()
        evaluation = self._evaluate(self._weight)
        self.push_sum.contribute(self._contribution(evaluation))
        sums = self._sums
        sums.pull[:] = (1 - eta * self.settings.alpha) * sums.pull + eta * evaluation.pull
        weights = sums.pull / sums.rows
        self.weights = self._projected(weights)
        if self.weights is not weights:
            self._set_mass(sums.rows)

    def _contribution(self, evaluation: HingeEvaluation) -> Floats:
        return super()._contribution(replace(evaluation, pull=np.zeros(self._shape)))


def gadget_of(rows: HingeRows, settings: GadgetSettings, seed: tuple[int, ...] = (0,)) -> Gadget:
    """Return the learner for the kind of gradient in the settings."""
    return (LocalGadget if settings.gradient == "local" else Gadget)(rows, settings, seed)
