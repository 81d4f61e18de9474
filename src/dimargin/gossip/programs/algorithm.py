"""Interfaces of the algorithms by which sites learn linear machines, and of their site programs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from dimargin.gossip.programs.learner import LearnerSettings
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Problem:
    """Objective ``alpha/2 |w|^2 + 1/N sum_i loss(y_i w.x_i)`` and network, which all sites know at the start."""

    alpha: float
    n_sites: int
    n_rows: int  # Number N of rows of all sites.
    lease: float = 20.0  # Seconds of silence after which a neighbour counts as gone.
    interval: float = 1.0  # Seconds between rounds.
    tol: float = 0.0  # Relative duality gap at which sites that compute certificates stop.
    # As in `LearnerSettings`; simulated sites have the defaults.
    max_messages: float = math.inf
    schema: str = ""
    birth: float = 0.0
    inherits_weights: bool = True  # Whether weights are of use under a wider schema; those of random features are not.

    @property
    def settings(self) -> LearnerSettings:
        """Settings of any learner."""
        return LearnerSettings(
            interval=self.interval, lease=self.lease, max_messages=self.max_messages, schema=self.schema,
            birth=self.birth,
        )  # fmt: skip


class LinearSite(Protocol):
    """Attributes that the program of a site with a linear machine has in addition to those of `SiteProgram`."""

    rows: HingeRows
    rounds: int  # Number of rounds that the site has run.

    @property
    def weights(self) -> Floats:
        """The last iterate, of shape (n_outputs, n_features)."""

    @property
    def average(self) -> Floats:
        """Average of the iterates, of the same shape, or the last iterate if the algorithm does not average."""

    @property
    def dual(self) -> Floats | None:
        """Coefficients of this site's rows, in [0, 1], of shape (n_outputs, n), or None without any."""


class SiteAlgorithm(ABC):
    """Abstract base class of algorithms, each a dataclass of its parameters.

    Attributes
    ----------
    shares : {"parameters", "rows"}
        What leaves a site; rows only if its owner has allowed it.
    losses : tuple of str
        Losses of margins that it can minimise, of `dimargin.problems.hinge.LOSSES`.
    needs_answers : bool
        Whether edges must be undirected, since sites wait for answers.
    """

    shares: ClassVar[Literal["parameters", "rows"]] = "parameters"
    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    needs_answers: ClassVar[bool] = True

    @property
    def min_neighbours(self) -> int:
        """Number of neighbours that every site must have; a site with fewer would learn alone."""
        return 0

    @abstractmethod
    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""

    @abstractmethod
    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        """Return the program of the site `name`, whose random draws follow from the seed."""
