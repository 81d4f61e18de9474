"""Solvers, each of which takes one problem and returns its solution."""

from dimargin.solvers.block_coordinate_descent import CACHE, BlockCoordinateDescent
from dimargin.solvers.core_set_svrg import CoreSetSVRG
from dimargin.solvers.growing_rows import GrowingRows
from dimargin.solvers.linear_features import LinearFeatures
from dimargin.solvers.loop import Interrupted, Limits, solve
from dimargin.solvers.newton import Newton
from dimargin.solvers.primal import PrimalSolution, Shard
from dimargin.solvers.svrg import SVRG

__all__ = [
    "CACHE",
    "SVRG",
    "BlockCoordinateDescent",
    "CoreSetSVRG",
    "GrowingRows",
    "Interrupted",
    "Limits",
    "LinearFeatures",
    "Newton",
    "PrimalSolution",
    "Shard",
    "solve",
]
