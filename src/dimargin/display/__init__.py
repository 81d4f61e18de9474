"""Plots in scikit-learn's Display style, which import matplotlib (extra "report") on use."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.display.convergence import ConvergenceDisplay as ConvergenceDisplay
    from dimargin.display.core_set_agreement import CoreSetConsensusDisplay as CoreSetConsensusDisplay
    from dimargin.display.margin_distribution import MarginDistributionDisplay as MarginDistributionDisplay
    from dimargin.display.performance_profile import PerformanceProfileDisplay as PerformanceProfileDisplay
    from dimargin.display.tuning import TuningDisplay as TuningDisplay
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
