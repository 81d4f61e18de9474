"""Algorithms by which sites learn linear machines: what makes their programs, and what is asked of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Problem:
    """Knowledge of all sites before they begin: ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` and the network."""

    alpha: float
    n_sites: int
    n_rows: int  # N, of all sites
    lease: float = 20.0  # seconds of silence after which a neighbour counts as gone
    interval: float = 1.0  # seconds between rounds


class LinearSite(Protocol):
    """Attributes of the program of a site that learns a linear machine, beside those of `SiteProgram`."""

    rows: HingeRows
    rounds: int  # that the site has run

    @property
    def weights(self) -> Floats:
        """The last iterate, of shape (n_outputs, n_features)."""

    @property
    def average(self) -> Floats:
        """Average of the iterates, of the same shape; the last iterate where the algorithm has none."""

    @property
    def dual(self) -> Floats | None:
        """Coefficients of this site's rows, in [0, 1], of shape (n_outputs, n), or None where it has none."""


class SiteAlgorithm(ABC):
    """Abstract base class of algorithms, each a dataclass of its parameters.

    Attributes
    ----------
    shares : {"parameters", "rows"}
        What leaves a site; rows only where its owner has allowed it.
    vectors : tuple of str
        Names of the fields of its messages that hold what was learnt, as arrays, which
        `dimargin_bench.gossip_rivals.liars` lies about.
    needs_answers : bool
        Whether edges must be undirected, since sites wait for messages of those to whom they send.
    """

    shares: ClassVar[Literal["parameters", "rows"]] = "parameters"
    vectors: ClassVar[tuple[str, ...]] = ()
    needs_answers: ClassVar[bool] = True

    @property
    def min_neighbours(self) -> int:
        """Number of neighbours that every site must have; with fewer it would learn alone."""
        return 0

    @abstractmethod
    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""

    @abstractmethod
    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        """Return the program of the site `name`, whose draws follow from the seed."""
