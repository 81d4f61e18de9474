"""One problem in, one `Solution` out, on one machine."""

from dimargin.solvers.block_coordinate_descent import CACHE, BlockCoordinateDescent
from dimargin.solvers.loop import Interrupted, Limits, solve

__all__ = ["CACHE", "BlockCoordinateDescent", "Interrupted", "Limits", "solve"]
