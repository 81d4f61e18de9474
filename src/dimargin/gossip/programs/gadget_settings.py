"""Settings of sites that learn by GADGET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dimargin.gossip.programs.learner import LearnerSettings
from dimargin.gossip.programs.learner_parameters import GadgetParameters


@dataclass(frozen=True)
class GadgetSettings(GadgetParameters, LearnerSettings):
    """Settings of GADGET: the parameters that the site's owner chooses, and the others.

    The stopping rule `stop` must hold `n_quiet` times in a row. With "objective", the objective of
    all rows has varied by less than a share `tol` in the second half of the steps, or the relative
    duality gap is below `tol`. With "quiet", the paper's rule, a step is shorter than `tol`.
    """

    projection: bool = False
    stop: Literal["objective", "quiet"] = "objective"
    tol: float = 2e-3
    n_quiet: int = 3
    lease: float = 20.0
    # The most that one message may add to any sum. Contributions of a site that exceeds a bound are
    # undone, like those of a site that has gone.
    mass_bound: float = np.inf
    # Whether weights are of use under a wider schema; random features change with the schema.
    inherits_weights: bool = True
