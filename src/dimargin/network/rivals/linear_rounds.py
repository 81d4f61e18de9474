"""Base class of site programs that learn linear machines in common rounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from dimargin.network.messages import Array, Numbers
from dimargin.network.programs.algorithm import Problem
from dimargin.network.programs.learner import LearnerSettings
from dimargin.network.rivals.local_svm import LocalSVM
from dimargin.network.rivals.synchronous import Synchronous
from dimargin.network.rivals.turns import Step
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats

_LONGEST = 1e6  # norm of weights that are used, in those of the longest optimum


class Iterate(Step, frozen=True, tag="iterate"):
    """Message with the weights of its sender."""

    weights: Annotated[Array, Numbers((2,))]


class LinearRounds(Synchronous):
    """Site program that learns a linear machine of all rows.

    The objective is the mean over all sites of ``f_i(w) = alpha/2 |w|^2 + m/N sum_j max(0, 1 - y_j w.x_j)``, where m is
    the number of sites, N that of all rows, and the sum is over the rows of site i.

    Attributes
    ----------
    weights : ndarray of shape (n_outputs, n_features)
        What the site has learnt at the end of the last round.
    dual : ndarray of shape (n_outputs, n) or None
        Dual coefficients of the rows, in [0, 1].
    """

    state: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(self, rows: HingeRows, problem: Problem, seed: tuple[int, ...] = (0,)) -> None:
        super().__init__(LearnerSettings(interval=problem.interval, lease=problem.lease), seed)
        self.rows, self.problem = rows, problem
        self.weights = np.zeros((rows.signs.shape[0], rows.X.shape[1]))
        self.dual: Floats | None = None

    @property
    def average(self) -> Floats:
        """The last iterate, since there is no average."""
        return self.weights

    @property
    def row_weight(self) -> float:
        """Weight m/N of the loss of a row in the objective of its site."""
        return self.problem.n_sites / self.problem.n_rows

    def gradient(self, weights: Floats, batch_size: int | None = None) -> Floats:
        """Return a subgradient of the site's objective, of all its rows or of a batch, drawn with replacement."""
        n = self.rows.n_rows
        if batch_size is None or not n:
            return self.problem.alpha * weights - self.row_weight * self.rows.evaluate(weights).pull
        chosen = self.rng.integers(n, size=batch_size)
        pull = self.rows.evaluate(weights, chosen).pull * (n / batch_size)
        return np.asarray(self.problem.alpha * weights - self.row_weight * pull)

    def shape_fault(self, vectors: Any) -> str | None:
        """Return what is wrong with the shape of a neighbour's weights, or None."""
        if vectors.shape != self.weights.shape:
            return f"its weights have shape {vectors.shape}, expected {self.weights.shape}"
        return None

    def bounded(self, vectors: Floats) -> Floats:
        """Return vectors that are shortened where they are far longer than any optimum.

        So no neighbour can bring this site to send what others refuse.
        """
        length, longest = float(np.linalg.norm(vectors)), _LONGEST * self.problem.alpha**-0.5
        return vectors if length <= longest else np.asarray(vectors * (longest / length))


class LocalSolves(LinearRounds):
    """Site program that solves a problem on its own rows in every round, and tells neighbours the solution.

    Subclasses say by `distance` how far the solution may be from where.

    Parameters
    ----------
    rows, problem, seed
        As in `LinearRounds`.
    tol : float
        Relative duality gap of the site's problem up to which it is solved.
    max_steps : int
        Most steps of Newton's method in a round, for each output.
    """

    kinds = (Iterate,)
    state: ClassVar[tuple[str, ...]] = ("weights", "dual")
    dual: Floats

    def __init__(self, rows: HingeRows, problem: Problem, seed: tuple[int, ...], tol: float, max_steps: int) -> None:
        super().__init__(rows, problem, seed)
        self.dual = np.zeros(rows.signs.shape)
        self._local: LocalSVM | None = None
        self._accuracy = tol, max_steps

    @abstractmethod
    def distance(self) -> tuple[Floats, Floats]:
        """Return curvature h and slope s of ``sum_j h_j/2 w_j^2 - s.w``, which is added to the losses of the rows.

        They are of shape (n_features,) and (n_outputs, n_features).
        """

    @abstractmethod
    def exchange(self, name: str, theirs: Floats) -> None:
        """Learn from the solution of a neighbour in this round."""

    @property
    def is_waiting(self) -> bool:
        """Return whether there are neighbours, but none whose solution is known: nothing is solved before."""
        return bool(self.members) and not self.known

    @property
    @abstractmethod
    def known(self) -> Collection[str]:
        """Neighbours with which the site has exchanged solutions."""

    def begin(self) -> None:
        """Solve the problem of the site."""
        if self.is_waiting:
            return
        curvature, slope = self.distance()
        if self._local is None or not np.array_equal(curvature, self._local.curvature):
            self._local = LocalSVM(self.rows, self.row_weight, curvature, self.row_weight * self.dual)
        self.weights = self.bounded(self._local.solve(slope / curvature, *self._accuracy))
        self.dual = np.clip(self._local.dual / self.row_weight, 0.0, 1.0)

    def outgoing(self, neighbour: str) -> Iterate:
        """Return the solution."""
        return Iterate(**self.head, weights=self.weights)

    def fault(self, sender: str, message: Iterate) -> str | None:
        """Return what is wrong with a neighbour's message."""
        return self.shape_fault(message.weights)

    def advance(self, messages: Mapping[str, Iterate]) -> None:
        """Exchange solutions."""
        for name, message in messages.items():
            self.exchange(name, self.bounded(message.weights))
