"""Pictures in scikit-learn's Display style; matplotlib (extra "report") is imported when one is drawn."""

from dimargin.displays.convergence import ConvergenceDisplay
from dimargin.displays.core_set_consensus import CoreSetConsensusDisplay
from dimargin.displays.margin_distribution import MarginDistributionDisplay
from dimargin.displays.performance_profile import PerformanceProfileDisplay
from dimargin.displays.tuning import TuningDisplay

__all__ = [
    "ConvergenceDisplay",
    "CoreSetConsensusDisplay",
    "MarginDistributionDisplay",
    "PerformanceProfileDisplay",
    "TuningDisplay",
]
