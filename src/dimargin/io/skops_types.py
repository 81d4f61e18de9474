"""Names of the classes in a fitted estimator, for loaders that load only trusted types."""

from __future__ import annotations

import scipy.sparse as sp

from dimargin.estimators import MACHINES, CoreSetSVDD, CoreSetSVMClassifier, GossipSVMClassifier, OneClassCoreSetSVM
from dimargin.estimators.callbacks import LevelScores
from dimargin.estimators.preprocessing import CalendarFeatures, CategoryEncoder, FourierFeatures, SparseScaler
from dimargin.estimators.search import (
    LinearODMClassifierCV,
    LinearSVMClassifierCV,
    ODMClassifierCV,
    SVMClassifierCV,
)
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.io.models.algorithms import algorithm_homes
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import UserKernel
from dimargin.shards.partition import KernelClusters, Split
from dimargin.strategies import LINEAR_SOLVERS, STRATEGIES, Committee, Router


def _trusted_types() -> tuple[str, ...]:
    estimators = (
        *MACHINES.values(), ODMClassifierCV, SVMClassifierCV, LinearODMClassifierCV, LinearSVMClassifierCV,
        CoreSetSVMClassifier, CoreSetSVDD, OneClassCoreSetSVM, GossipSVMClassifier, CalendarFeatures,
        CategoryEncoder, FourierFeatures, SparseScaler,
    )  # fmt: skip
    parameters = (
        *STRATEGIES.values(), *LINEAR_SOLVERS.values(), LevelScores, Conditions, LinkFaults, Outage, NetworkSplit,
        frozenset,
    )  # fmt: skip
    fitted_parts = (
        SparseColumns, Kernel, RowTransform, UserKernel, Router, Committee, KernelClusters, Split, sp.csr_array
    )  # fmt: skip
    # The algorithms are not imported, because their modules need the extra "peers".
    algorithms = {f"{module}.{name}" for name, module in algorithm_homes().items()}
    kinds = (*estimators, *parameters, *fitted_parts)
    return tuple(sorted(algorithms | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}))


TRUSTED_TYPES: tuple[str, ...] = _trusted_types()
"""Full names of all classes in fitted estimators, including their parameters, for skops and MLflow.

Names that a loader trusts by default, such as numpy's, are not included, nor are functions and
objects of other packages that a caller passes as parameters.
"""
