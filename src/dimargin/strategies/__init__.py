"""Strategies, which put a whole problem together from parts: one file for each."""

from dimargin.strategies.base import (
    Facts,
    LevelModel,
    Options,
    Outcome,
    Progress,
    Resumption,
    Strategy,
    Training,
    TreeShape,
)
from dimargin.strategies.cascade import Cascade
from dimargin.strategies.committee import Committee
from dimargin.strategies.dc import DivideAndConquer
from dimargin.strategies.diodm import DiODM
from dimargin.strategies.dip import DiP
from dimargin.strategies.exact import CoreSet, Exact
from dimargin.strategies.landmark import Landmark
from dimargin.strategies.linear import LinearNewton, LinearSolver, LinearTraining
from dimargin.strategies.linear_svrg import LinearCoreSetSVRG, LinearDSVRG, LinearSVRG
from dimargin.strategies.routing import Router

STRATEGIES: dict[str, type[Strategy]] = {
    "exact": Exact, "diodm": DiODM, "dc": DivideAndConquer, "cascade": Cascade, "dip": DiP, "landmark": Landmark
}  # fmt: skip
LINEAR_SOLVERS: dict[str, type[LinearSolver]] = {
    "newton": LinearNewton, "svrg": LinearSVRG, "csvrg": LinearCoreSetSVRG, "dsvrg": LinearDSVRG
}  # fmt: skip

__all__ = [
    "LINEAR_SOLVERS",
    "STRATEGIES",
    "Cascade",
    "Committee",
    "CoreSet",
    "DiODM",
    "DiP",
    "DivideAndConquer",
    "Exact",
    "Facts",
    "Landmark",
    "LevelModel",
    "LinearCoreSetSVRG",
    "LinearDSVRG",
    "LinearNewton",
    "LinearSVRG",
    "LinearSolver",
    "LinearTraining",
    "Options",
    "Outcome",
    "Progress",
    "Resumption",
    "Router",
    "Strategy",
    "Training",
    "TreeShape",
]
