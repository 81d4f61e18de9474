"""How a whole problem is put together from parts: one file a strategy."""

from dimargin.strategies.base import Outcome, Progress, Strategy, Training, TreeShape
from dimargin.strategies.diodm import DiODM
from dimargin.strategies.exact import Exact

STRATEGIES: dict[str, type[Strategy]] = {"exact": Exact, "diodm": DiODM}

__all__ = ["STRATEGIES", "DiODM", "Exact", "Outcome", "Progress", "Strategy", "Training", "TreeShape"]
