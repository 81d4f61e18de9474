"""Iterations of a site of uniform gossip: a step, and rounds in each of which a neighbour is given half of the mass."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, SiteProgram, Wake
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.parameter_checks import check_whole
from dimargin.problems.hinge import HingeRows, shrinkage_into_ball
from dimargin.system.arrays import Floats

LARGEST_SUM = 1e60  # size of a number that a neighbour may add to the mass
MIN_WEIGHT = 1e-60  # A smaller mass gives no weights, because sums divided by it may overflow.
Form = Literal["mended", "algorithm 3", "equation 4", "equation 5"]
FORMS: tuple[Form, ...] = ("mended", "algorithm 3", "equation 4", "equation 5")


@dataclass(frozen=True)
class UniformParameters:
    """Parameters of `UniformGadget`, which documents them."""

    batch_size: int | None = 1
    gossip_rounds: int = 1
    projection: bool = True
    form: Form = "mended"

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 1)
        check_whole("gossip_rounds", self.gossip_rounds, 1)
        if not isinstance(self.projection, (bool, np.bool_)):
            raise ValueError(f"projection must be True or False, got {self.projection!r}")
        if self.form not in FORMS:
            raise ValueError(f"form must be {' or '.join(map(repr, FORMS))}, got {self.form!r}")


class UniformSite(SiteProgram):
    """Site program of iterations, whose step and mass subclasses have, each followed by rounds of gossip."""

    shares = "parameters"

    def __init__(self, parameters: UniformParameters, problem: Problem, rows: HingeRows, seed: tuple[int, ...]) -> None:
        self.parameters, self.problem, self.rows = parameters, problem, rows
        self._shape = rows.signs.shape[0], rows.X.shape[1]
        self.average = np.zeros(self._shape)  # of the weights at the end of iterations t, weighted by t
        self.rounds = self.steps = 0
        self.neighbourhood = Neighbourhood(problem.lease)
        self._rng = np.random.default_rng(seed)
        self._last = np.zeros(self._shape)  # weights at the end of the last iteration
        self._since_step = parameters.gossip_rounds  # rounds; the first step is due at once

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """Mass over its weight: the last iterate, of shape (n_outputs, n_features)."""

    @property
    def dual(self) -> Floats | None:
        """Coefficients of this site's rows, in [0, 1], of shape (n_outputs, n); None in the printed forms."""
        return None

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        yield Wake(self.problem.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: step where an iteration begins, and give a neighbour half of the mass."""
        self.rounds += 1
        yield from self._let_go(now)
        if self._since_step >= self.parameters.gossip_rounds and self._may_step(now):
            if self.steps:
                self._finish()
            self._since_step, self.steps = 0, self.steps + 1
            self._step(self._batch())
        self._since_step += 1
        yield from self._tell(now)
        yield Wake(self.problem.interval)

    def _batch(self) -> NDArray[np.intp] | None:
        """Return the indices of the rows of a batch; None for all of them."""
        size, n = self.parameters.batch_size, self.rows.n_rows
        return None if size is None or not n else self._rng.integers(n, size=size)

    def _finish(self) -> None:
        """End an iteration."""
        self._last = self.weights
        self.average = self.average + (self._last - self.average) * (2 / (self.steps + 1))

    def _drawn(self, names: list[str]) -> str:
        return names[int(self._rng.integers(len(names)))]

    def _shrinkage(self, weights: Floats) -> Any:
        """Return the factors that bring weights into the ball, of shape (n_outputs, 1); one without projection."""
        return shrinkage_into_ball(weights, self.problem.alpha) if self.parameters.projection else 1.0

    @abstractmethod
    def _let_go(self, now: float) -> Iterable[Action]:
        """Leave out neighbours that have gone."""

    @abstractmethod
    def _may_step(self, now: float) -> bool:
        """Return whether there is mass to step on, and the site knows how far others are."""

    @abstractmethod
    def _step(self, chosen: NDArray[np.intp] | None) -> None:
        """Take step `self.steps` on a batch."""

    @abstractmethod
    def _tell(self, now: float) -> Iterable[Action]:
        """Give half of the mass to a neighbour."""

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Ignore a sender from now on, and undo what it has contributed as far as the form can."""
        self.neighbourhood.refuse(sender, reason)
        self._forget(sender)
        yield Report("refused", {"site": sender, "reason": reason})

    @abstractmethod
    def _forget(self, name: str) -> None:
        """Undo what went between this site and a neighbour, where there is a way."""

    def checkpoint(self) -> dict[str, Any]:
        """Return averages, counts and the state of the random generator."""
        return {
            "average": self.average, "last": self._last, "rounds": self.rounds, "steps": self.steps,
            "since_step": self._since_step, "draws": json.dumps(self._rng.bit_generator.state),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; raises ValueError where it has NaN or infinite values."""
        for name, value in state.items():
            if isinstance(value, np.ndarray) and not np.isfinite(value).all():
                raise ValueError(f"its {name} are NaN or infinite")
        if state["average"].shape != self._shape:
            raise ValueError(f"its weights are of shape {state['average'].shape}, expected {self._shape}")
        self.average, self._last = state["average"], state["last"]
        self.rounds, self.steps, self._since_step = state["rounds"], state["steps"], state["since_step"]
        self._rng.bit_generator.state = json.loads(state["draws"])
