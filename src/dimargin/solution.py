"""The dual problem, and the result value with its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels import Indices, KernelMatrix
from dimargin.losses import Loss, Pieces

Floats = NDArray[np.float64]
Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]


@dataclass(frozen=True)
class DualProblem:
    """Minimise ``1/2 g'Qg + sum_i phi_i(g_i)`` for every output, over shared rows and kernel.

    Attributes
    ----------
    kernel : KernelMatrix of shape (n, n)
    labels : ndarray of shape (n_outputs, n)
        Plus or minus one; several outputs are the binary problems of one-vs-rest.
    weights : ndarray of shape (n,)
        Positive row weights ``s_i``.
    loss : Loss
    mass : float
        Weight of the rows that this problem represents (``W_k``), rows filtered out included.
    total : float
        Weight of the rows of the whole problem (``W``).
    """

    kernel: KernelMatrix
    labels: Floats
    weights: Floats
    loss: Loss
    mass: float
    total: float

    @property
    def n_rows(self) -> int:
        """Rows of this problem."""
        return int(self.labels.shape[1])

    @cached_property
    def pieces(self) -> Pieces:
        """Conjugate of the loss on every row."""
        return self.loss.pieces(self.weights, self.mass, self.total)

    def restrict(self, index: Indices, mass: float, n_threads: int | None = None) -> DualProblem:
        """The local problem of some rows that represent a weight of `mass`."""
        return DualProblem(
            kernel=self.kernel.take(index, n_threads),
            labels=np.ascontiguousarray(self.labels[:, index]),
            weights=self.weights[index],
            loss=self.loss,
            mass=mass,
            total=self.total,
        )

    def select(self, outputs: Indices) -> DualProblem:
        """The same problem for some of the outputs."""
        if len(outputs) == len(self.labels):
            return self
        return DualProblem(self.kernel, self.labels[outputs], self.weights, self.loss, self.mass, self.total)

    def with_kernel(self, kernel: KernelMatrix) -> DualProblem:
        """The same problem on other kernel values."""
        return DualProblem(kernel, self.labels, self.weights, self.loss, self.mass, self.total)

    def margins(self, dual: Floats) -> Floats:
        """``m = Qg``, of shape (n_outputs, n): one pass over the columns with a nonzero coefficient."""
        support = np.flatnonzero(dual.any(axis=0))
        return self.labels * self.kernel.multiply(support, (self.labels * dual)[:, support])

    def gaps(self, dual: Floats, margins: Floats) -> Floats:
        """Every row's part of the gap, ``loss_i(m_i) + phi_i(g_i) + g_i m_i >= 0`` (Fenchel-Young)."""
        return self._gaps(self._losses(margins), dual, dual * margins)

    def _losses(self, margins: Floats) -> Floats:
        return self.loss.value(margins, self.weights, self.mass, self.total)

    def _gaps(self, losses: Floats, dual: Floats, products: Floats) -> Floats:
        return np.maximum(losses + self.pieces.value(dual) + products, 0.0)

    def objectives(self, dual: Floats, margins: Floats) -> Objectives:
        """Primal and dual objective and their gap.

        The gap is the sum of `gaps`, so that it is never negative and does not cancel.
        """
        losses, products = self._losses(margins), dual * margins
        primal = 0.5 * products.sum(axis=1) + losses.sum(axis=1)
        gap = self._gaps(losses, dual, products).sum(axis=1)
        return Objectives(primal, primal - gap, gap / np.maximum(np.abs(primal), np.finfo(float).tiny))


@dataclass(frozen=True)
class Objectives:
    """Primal objective, dual objective (below it) and relative gap, each of shape (n_outputs,)."""

    primal: Floats
    dual: Floats
    relative_gap: Floats

    @property
    def worst_gap(self) -> float:
        """Relative gap of the output that is furthest from its optimum."""
        return float(self.relative_gap.max())


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    Attributes
    ----------
    dual : ndarray of shape (n_outputs, n)
        Dual coefficients ``g`` (without labels).
    margins : ndarray of shape (n_outputs, n)
        ``Qg``.
    objectives : Objectives
    status : {"converged", "max_iter", "max_time", "stopped", "precision"}
    reason : str
        The status in words.
    passes : int
        Passes over the rows, at least one.
    kernel_evaluations : int
        All of them: warm start and certificate included.
    history : list of dict
        One entry a check: ``kernel_evaluations``, ``seconds``, ``objective``, ``relative_gap``.
    """

    dual: Floats
    margins: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    kernel_evaluations: int
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether the relative gap of every output is within the tolerance asked for."""
        return self.status == "converged"
