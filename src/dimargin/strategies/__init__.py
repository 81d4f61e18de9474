"""Training strategies, one per file."""

from dimargin.strategies.cascade import Cascade as Cascade
from dimargin.strategies.committee import Committee as Committee
from dimargin.strategies.dc import DivideAndConquer as DivideAndConquer
from dimargin.strategies.diodm import DiODM as DiODM
from dimargin.strategies.dip import DiP as DiP
from dimargin.strategies.exact import CoreSet as CoreSet
from dimargin.strategies.exact import Exact as Exact
from dimargin.strategies.landmark import Landmark as Landmark
from dimargin.strategies.linear_coordinate_descent import LinearCoCoA as LinearCoCoA
from dimargin.strategies.linear_coordinate_descent import LinearCoordinateDescent as LinearCoordinateDescent
from dimargin.strategies.linear_newton import LinearNewton as LinearNewton
from dimargin.strategies.linear_newton import LinearSolver as LinearSolver
from dimargin.strategies.linear_newton import LinearTraining as LinearTraining
from dimargin.strategies.linear_svrg import LinearCoreSetSVRG as LinearCoreSetSVRG
from dimargin.strategies.linear_svrg import LinearDSVRG as LinearDSVRG
from dimargin.strategies.linear_svrg import LinearSVRG as LinearSVRG
from dimargin.strategies.routing import Router as Router
from dimargin.strategies.strategy import Facts as Facts
from dimargin.strategies.strategy import LevelModel as LevelModel
from dimargin.strategies.strategy import Options as Options
from dimargin.strategies.strategy import Outcome as Outcome
from dimargin.strategies.strategy import Progress as Progress
from dimargin.strategies.strategy import Resumption as Resumption
from dimargin.strategies.strategy import Strategy as Strategy
from dimargin.strategies.strategy import Training as Training
from dimargin.strategies.strategy import TreeShape as TreeShape

STRATEGIES: dict[str, type[Strategy]] = {
    "exact": Exact, "diodm": DiODM, "dc": DivideAndConquer, "cascade": Cascade, "dip": DiP, "landmark": Landmark
}  # fmt: skip
LINEAR_SOLVERS: dict[str, type[LinearSolver]] = {
    "newton": LinearNewton, "cd": LinearCoordinateDescent, "cocoa": LinearCoCoA,
    "svrg": LinearSVRG, "csvrg": LinearCoreSetSVRG, "dsvrg": LinearDSVRG,
}  # fmt: skip
OPTION_CLASSES: dict[str, type[Options]] = {
    options.__name__: options for options in (*STRATEGIES.values(), *LINEAR_SOLVERS.values())
}
"""Classes of strategies and linear solvers by their names, which model files and Spark's Params hold."""


def strategy_of(given: object) -> Strategy:
    """Return the strategy of this name, or the given strategy object, after validating its options."""
    if isinstance(given, Strategy):
        given.validate()
        return given
    if not isinstance(given, str) or given not in STRATEGIES:
        raise ValueError(
            f"strategy must be 'auto', {', '.join(map(repr, STRATEGIES))} or a strategy object, got {given!r}"
        )
    return STRATEGIES[given]()
