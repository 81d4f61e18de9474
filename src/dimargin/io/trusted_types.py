"""The classes that a fitted estimator is made of, by name, for loaders that load what they are told to trust only."""

from __future__ import annotations

import scipy.sparse as sp

from dimargin.estimators import MACHINES, CoreSetSVDD, CoreSetSVMClassifier, GossipSVMClassifier, OneClassCoreSetSVM
from dimargin.estimators.callbacks import LevelScores
from dimargin.estimators.preprocessing import CalendarFeatures, FourierFeatures, SparseScaler
from dimargin.estimators.search import ODMClassifierCV
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.io.models.algorithms import algorithm_homes
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import UserKernel
from dimargin.shards.partition import KernelClusters, Split
from dimargin.strategies import LINEAR_SOLVERS, STRATEGIES, Committee, Router

_ESTIMATORS = (
    *MACHINES.values(), ODMClassifierCV, CoreSetSVMClassifier, CoreSetSVDD, OneClassCoreSetSVM, GossipSVMClassifier,
    CalendarFeatures,
    FourierFeatures,
    SparseScaler,
)  # fmt: skip
_PARAMETERS = (
    *STRATEGIES.values(), *LINEAR_SOLVERS.values(), LevelScores, Conditions, LinkFaults, Outage, NetworkSplit, frozenset
)  # fmt: skip
_FITTED = (SparseColumns, Kernel, RowTransform, UserKernel, Router, Committee, KernelClusters, Split, sp.csr_array)
# by name, since their modules need the extra "peers"
_ALGORITHMS = {f"{module}.{name}" for name, module in algorithm_homes().items()}

TRUSTED_TYPES: tuple[str, ...] = tuple(
    sorted(_ALGORITHMS | {f"{kind.__module__}.{kind.__qualname__}" for kind in (*_ESTIMATORS, *_PARAMETERS, *_FITTED)})
)
"""Full names of all classes that a fitted estimator may hold, parameters included, as skops and mlflow take them.

The names that a loader knows by itself, such as numpy's, are not among them; nor are functions, and objects of other
packages, that a caller gives as a parameter.
"""
