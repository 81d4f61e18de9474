"""Settings of sites that learn by GADGET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dimargin.gossip.programs.learner import LearnerSettings
from dimargin.gossip.programs.learner_parameters import GadgetParameters


@dataclass(frozen=True)
class GadgetSettings(GadgetParameters, LearnerSettings):
    """Settings of GADGET: what its owner chooses, and the rest.

    The rule for stopping, `stop`, must hold `n_quiet` times running. With "objective", the objective of all rows has
    stayed within a share of `tol` in the second half of the steps, or the dual objective is that close. With "quiet",
    the paper's rule, a step is shorter than `tol`.
    """

    projection: bool = False
    stop: Literal["objective", "quiet"] = "objective"
    tol: float = 2e-3
    n_quiet: int = 3
    lease: float = 20.0
    # of what one message may add to any sum; what came from a site that breaks a bound is undone, as is what came from
    # one that has gone
    mass_bound: float = np.inf
