"""Solvers, each of which takes one problem and returns its solution."""

from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent as BlockCoordinateDescent
from dimargin.solvers.cocoa import CoCoA as CoCoA
from dimargin.solvers.coordinate_descent import CoordinateDescent as CoordinateDescent
from dimargin.solvers.core_set_svrg import CoreSetSVRG as CoreSetSVRG
from dimargin.solvers.crammer_singer import CrammerSinger as CrammerSinger
from dimargin.solvers.dual_solver import CACHE as CACHE
from dimargin.solvers.dual_solver import DualSolver as DualSolver
from dimargin.solvers.growing_rows import GrowingRows as GrowingRows
from dimargin.solvers.linear_features import LinearFeatures as LinearFeatures
from dimargin.solvers.loop import Interrupted as Interrupted
from dimargin.solvers.loop import Limits as Limits
from dimargin.solvers.loop import solve as solve
from dimargin.solvers.newton import Newton as Newton
from dimargin.solvers.primal import PrimalSolution as PrimalSolution
from dimargin.solvers.primal import Shard as Shard
from dimargin.solvers.proximal_newton import ProximalNewton as ProximalNewton
from dimargin.solvers.row_descent import RowDescent as RowDescent
from dimargin.solvers.svrg import SVRG as SVRG

ExactSolver = BlockCoordinateDescent
"""The solver of dual problems, unless a strategy names another as its `solver`."""
