"""Settings of sites that learn by GADGET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class GadgetSettings:
    """Settings of GADGET.

    Attributes
    ----------
    alpha : float
        Weight of the regulariser; the paper's lambda.
    gradient : {"tracked", "local"}
    batch_size : int or None
        Rows that a step evaluates, drawn with replacement; None for all.
    gossip_rounds : int or float
        Rounds for every step. A number below one is a tolerance: there are as many rounds as it takes for the site's
        own estimate to change by less than this share in a round.
    step_size : "auto", "pegasos" or float
        Approximate length of the first step: what the rows' curvature allows (steps.py), ``1/alpha``, or this number.
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

    alpha: float = 1e-4
    gradient: Literal["tracked", "local"] = "tracked"
    batch_size: int | None = None
    gossip_rounds: int | float = 1
    step_size: str | float = "auto"
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
