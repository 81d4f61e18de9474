"""Plan of a fit, which is known before the fit begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimargin.problems.losses import Loss
from dimargin.strategies import TreeShape


@dataclass(frozen=True)
class FitPlan:
    """Plan of what `fit` will do with training data of a given size.

    Every classifier has a method ``fit_plan``, which checks its parameters and returns this value.

    Attributes
    ----------
    name : str
        Name of the strategy, solver or algorithm; of an object that has no name, its class.
    strategy : Strategy, LinearSolver, SiteAlgorithm or "gadget"
        Object that will train, chosen by the number of rows if the parameter is "auto".
    loss : Loss
    fit_intercept : bool
        Whether the decision function has an intercept that is not regularised.
    memory : int
        Bytes that the fit needs besides the data; it fails at the start if there are fewer.
    solve_memory : int
        Those of them that a solve of the whole problem needs, whatever the strategy.
    n_levels : int
        Number of levels whose models will be reported.
    shape : TreeShape or None
        Shape of the tree of partitions; None for linear machines.
    one_vs_one : bool
        Whether every pair of three or more classes gets a decision function of its own.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> machine = SVMClassifier(gamma=2.0)
    >>> [machine.fit_plan(n_rows, n_features=10).name for n_rows in (100_000, 1_000_000)]
    ['exact', 'dc']
    >>> plan = machine.fit_plan(3000, n_features=10, class_counts=[1000, 1000, 1000])
    >>> plan.one_vs_one, plan.n_levels, plan.memory < 2**30, plan.loss
    (True, 1, True, HingeLoss(C=1.0))
    """

    name: str
    strategy: Any
    loss: Loss
    fit_intercept: bool
    memory: int
    solve_memory: int
    n_levels: int = 1
    shape: TreeShape | None = None
    one_vs_one: bool = False


@dataclass(frozen=True)
class DataSize:
    """Numbers that a plan depends on.

    Attributes
    ----------
    n_rows, n_features : int
    n_values : int
        Number of stored values: for sparse rows those that are not zero.
    class_counts : tuple of int
        Number of rows of each class.
    """

    n_rows: int
    n_features: int
    n_values: int
    class_counts: tuple[int, ...]

    @property
    def n_outputs(self) -> int:
        """Number of decision functions, one against the rest."""
        return 1 if len(self.class_counts) == 2 else len(self.class_counts)
