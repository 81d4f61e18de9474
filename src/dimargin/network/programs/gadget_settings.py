"""Settings of sites that learn by GADGET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dimargin.network.programs.parameters import GadgetParameters


@dataclass(frozen=True)
class GadgetSettings(GadgetParameters):
    """Settings of GADGET: what its owner chooses, and the rest.

    Attributes
    ----------
    projection : bool
    stop : {"objective", "quiet"}
        Rule for stopping, which must hold `n_quiet` times running. With "objective", the objective of all rows has
        stayed within a share of `tol` in the second half of the steps, or the dual objective is that close. With
        "quiet", the paper's rule, a step is shorter than `tol`.
    tol : float
    n_quiet : int
    interval : float
        Seconds between rounds.
    lease : float
        Seconds of silence after which a neighbour counts as gone, and all that came from it is undone. Infinite where
        receivers need not send anything back.
    norm_bound : float
        Bound of the norm of weights; a site that sends larger ones is refused, and its contribution is undone.
    mass_bound : float
        Bound of what one message may add to any sum, with the same consequence.
    most_messages : float
        Messages per second that one neighbour may send, with the same consequence.
    schema : str
        Digest of the schema of the rows.
    """

    projection: bool = False
    stop: Literal["objective", "quiet"] = "objective"
    tol: float = 2e-3
    n_quiet: int = 3
    interval: float = 1.0
    lease: float = 20.0
    norm_bound: float = np.inf
    mass_bound: float = np.inf
    most_messages: float = np.inf
    schema: str = ""
