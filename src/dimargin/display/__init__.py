"""Plots in scikit-learn's Display style, which import matplotlib (extra "report") on use."""

from dimargin.display.convergence import ConvergenceDisplay
from dimargin.display.core_set_agreement import CoreSetConsensusDisplay
from dimargin.display.margin_distribution import MarginDistributionDisplay
from dimargin.display.performance_profile import PerformanceProfileDisplay
from dimargin.display.tuning import TuningDisplay

__all__ = [
    "ConvergenceDisplay",
    "CoreSetConsensusDisplay",
    "MarginDistributionDisplay",
    "PerformanceProfileDisplay",
    "TuningDisplay",
]
