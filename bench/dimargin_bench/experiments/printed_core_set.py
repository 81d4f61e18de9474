"""Settings with which sites agree on a core-set as the core-set paper prints it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dimargin.gossip.programs.candidates import Named
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.solvers.balls.active_set import Weights
from dimargin.solvers.balls.spaces import FeatureSpace
from dimargin.system.arrays import Indices


class _AllPoints(FeatureSpace):
    """Points whose balls keep those without weight."""

    def enclose(self, pool: Indices, start: Indices, tol: float) -> Weights:
        """Return the smallest ball around some points, with a weight of zero for those that it does not need."""
        ball = super().enclose(pool, start, tol)
        weights = np.zeros(len(pool))
        weights[ball.indices] = ball.weights
        return replace(ball, indices=np.arange(len(pool)), weights=weights)


class PrintedSettings(CoreSetSettings):
    """Settings of Algorithm 1, whose core-sets keep points without weight; dimargin's own drop them."""

    def space(self, points: Named) -> FeatureSpace:
        """Return the points, in the space of their features."""
        return _AllPoints(points.X)
