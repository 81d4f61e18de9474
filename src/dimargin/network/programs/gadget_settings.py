"""What sites that learn by GADGET do alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class GadgetSettings:
    """What all sites do alike.

    Attributes
    ----------
    alpha : float
        Weight of the regulariser; the paper's lambda.
    gradient : {"tracked", "local"}
    batch_size : int or None
        Rows that a step looks at, drawn with replacement; None is all.
    gossip_rounds : int or float
        Rounds for every step; a number below one is a tolerance: as many as it takes for the site's own estimate to
        change by less than this share in a round.
    step_size : "auto", "pegasos" or float
        What the first step is about as long as: what the rows' curvature allows (steps.py), ``1/alpha``, or a number.
    projection : bool
    stop : {"objective", "quiet"}
        By the objective of all rows: when it has stayed within a share of `tol` in the second half of the steps, or
        the dual objective is that close; by the paper's rule: when a step is shorter than `tol`. In both cases
        `n_quiet` times running.
    tol : float
    n_quiet : int
    interval : float
        Seconds between rounds.
    lease : float
        Seconds of silence after which a neighbour counts as gone, and all that came from it is undone. Infinite where
        those that one sends to do not send back.
    norm_bound : float
        Of sound weights; who sends larger ones is refused, and what it has brought undone.
    mass_bound : float
        Of what one message may add to any sum, likewise.
    most_messages : float
        A second, of one neighbour; who sends more is refused likewise.
    schema : str
        Digest of what rows mean here.
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
