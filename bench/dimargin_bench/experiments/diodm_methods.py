"""Methods of the DiODM paper's comparison, made by what the process of a cell finds by its module."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC, LinearSVC

from dimargin.estimators import LinearODMClassifier, ODMClassifier
from dimargin.strategies import DiODM, Exact, LinearDSVRG
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.literal_diodm import ConcatenatingDiODM, CoordinateDescent, CoordinateDiODM
from dimargin_bench.experiments.literal_dsvrg import LiteralDSVRG
from dimargin_bench.experiments.replay import TimedDiODM, TimedDSVRG

INTEL = "scikit-learn-intelex"
OURS = ", ours"
N_LEVELS = 2
STAGES = 15
_NEVER = 1e-12  # a tolerance that ends no stage
_PARTS = ("the whole problem", "4 parts", "16 parts", "64 parts")  # at each level
_TREES = {"diodm": "DiODM", "cascade": "Ca-ODM", "dip": "DiP-ODM", "dc": "DC-ODM"}
_CORES = "all cores but those that are measured, by tasks that were timed on one, and no messages"
_ODM = partial(LinearODMClassifier, fit_intercept=False)
_SERIAL = "all where gradients of all rows are computed, one between"


def intel_svc(**parameters: Any) -> Any:
    """Make the SVC of scikit-learn-intelex, which is imported only where it is used."""
    from sklearnex.svm import SVC as IntelSVC

    return IntelSVC(cache_size=2000, **parameters)


class CoordinateExact(Exact):
    """The whole problem by the coordinate descent of Algorithm 1's line 9, without a tree."""

    solver = CoordinateDescent


def _tree(strategy: str, level: int) -> Method:
    name = _TREES[strategy]
    make = partial(ODMClassifier, strategy=strategy, n_levels=N_LEVELS, stop_level=level)
    return Method(f"{name}, {_PARTS[level]}", make, f"{name}, which ends with {_PARTS[level]}", line=name)


TREES = tuple(_tree(strategy, level) for strategy in _TREES for level in range(N_LEVELS, -1, -1))
DIODM, *RIVALS = (f"{name}, {_PARTS[1]}" for name in _TREES.values())
"""The trees at the end of the paper's loop."""
DIODM_WHOLE = f"DiODM, {_PARTS[0]}"
DIODM_OURS = Method(
    DIODM + OURS,
    partial(ODMClassifier, strategy="diodm", n_levels=N_LEVELS, stop_level=1),
    "DiODM, which ends with 4 parts, with the kernel x'z + 1: that of rows with a constant feature",
)
EXACT = Method("exact", partial(ODMClassifier, strategy="exact"), "dimargin's exact machine, without a tree")
LANDMARK = Method(
    "landmark" + OURS,
    partial(ODMClassifier, strategy="landmark"),
    "the machine in the space of landmarks, which the paper does not have",
)
NEWTON = Method(
    "newton" + OURS,
    partial(LinearODMClassifier, solver="newton"),
    "linear ODM with an intercept by Newton's method, which the paper does not have",
)


def _thirds(name: str, make: Any, about: str) -> tuple[Method, ...]:
    return tuple(
        Method(f"{name}, {third}/3 of the stages", partial(make, max_iter=third * STAGES // 3, tol=_NEVER),
               f"{about}, after {third}/3 of {STAGES} stages", _SERIAL, line=name, ends_early=True)
        for third in (1, 2, 3)
    )  # fmt: skip


_DSVRG = "distributed SVRG, Algorithm 2 mended"
ACC_DIODM = _thirds("acc-DiODM", partial(_ODM, solver=LinearDSVRG()), _DSVRG)
ACC_DIODM_OURS = Method(
    "acc-DiODM" + OURS,
    partial(LinearODMClassifier, solver=LinearDSVRG(), max_iter=STAGES, tol=_NEVER),
    "acc-DiODM with an intercept, after all stages",
    _SERIAL,
    ends_early=True,
)
SVRG, CSVRG = "ODM_svrg", "ODM_csvrg"
GRADIENT = (
    Method("acc-DiODM", partial(_ODM, solver=LinearDSVRG(), tol=_NEVER), _DSVRG, _SERIAL, ends_early=True),
    Method(SVRG, partial(_ODM, solver="svrg", tol=_NEVER), "SVRG, on all rows in one place", "one", ends_early=True),
    Method(CSVRG, partial(_ODM, solver="csvrg", tol=_NEVER),
           "SVRG, whose gradients at anchors are those of a core-set, as long as it is small", "one", ends_early=True),
)  # fmt: skip

LIBSVM = Method(
    "SVC", partial(SVC, cache_size=2000), "scikit-learn's SVC, which is LIBSVM, tuned as the ODM is", threads="one"
)
INTEL_SVC = Method("intelex-SVC", intel_svc, "scikit-learn-intelex's SVC, with the parameters of SVC", requires=INTEL)
LINEAR_SVC = Method("LinearSVC", LinearSVC, "scikit-learn's LinearSVC, which is LIBLINEAR, with C = 1", threads="one")
BOOSTING = Method(
    "boosting",
    HistGradientBoostingClassifier,
    "scikit-learn's boosted trees with default parameters: no margin machine",
)
MAJORITY = Method(
    "majority",
    partial(DummyClassifier, strategy="most_frequent"),
    "the more frequent class for every row: what has learnt nothing",
    threads="one",
)


def _literal(strategy: DiODM, level: int) -> Any:
    return partial(ODMClassifier, strategy=strategy, n_levels=N_LEVELS, stop_level=level)


PRINTED_TREE, PRINTED_WHOLE = "DiODM, as printed", "DiODM, as printed, then the whole problem"
MENDED_WHOLE, PLAIN = "DiODM, rescaled, then the whole problem", "coordinate descent, no tree"
LITERAL_TREES = (
    Method(PRINTED_TREE, _literal(ConcatenatingDiODM(), 1),
           "Algorithm 1: concatenated starts, single coordinates, an end with 4 parts and their coefficients", "one"),
    Method("DiODM, rescaled", _literal(CoordinateDiODM(), 1),
           "Algorithm 1 with rescaled starts, and the mean of the machines at the end", "one"),
    Method(PRINTED_WHOLE, _literal(ConcatenatingDiODM(early_stop=False), 0),
           "Algorithm 1 as printed, and one level more", "one"),
    Method(MENDED_WHOLE, _literal(CoordinateDiODM(early_stop=False), 0),
           "Algorithm 1 with rescaled starts, and one level more", "one"),
    Method(PLAIN, partial(ODMClassifier, strategy=CoordinateExact(across_shards=False)),
           "the whole problem from zero, by the same single coordinates", "one"),
    Method("DiODM, dimargin's, then the whole problem", _literal(DiODM(early_stop=False), 0),
           "rescaled starts, blocks of rows, and strata that are divided by labels, too"),
)  # fmt: skip
PRINTED_GRADIENT, NO_INTERCEPT = "acc-DiODM, as printed", "newton, no intercept"
LITERAL_GRADIENT = (
    Method(PRINTED_GRADIENT, LiteralDSVRG,
           "Algorithm 2: line 15 without its parenthesis, every row taken once in all stages together",
           threads="one", problem="linear"),
    Method("acc-DiODM, line 15 mended", partial(LiteralDSVRG, parenthesis=True),
           "Algorithm 2 with the parenthesis", threads="one", problem="linear"),
    Method("acc-DiODM, mended", partial(_ODM, solver=LinearDSVRG(), max_iter=STAGES),
           f"Algorithm 2 with the parenthesis, every row taken once in each of {STAGES} stages", _SERIAL,
           problem="linear", ends_early=True),
    Method(NO_INTERCEPT, partial(_ODM, solver="newton"), "the optimum", problem="linear"),
)  # fmt: skip

TIMED_TREES = tuple(
    Method(f"DiODM, {name}",
           partial(ODMClassifier, strategy=TimedDiODM(early_stop=False), n_levels=3, stop_level=level),
           f"DiODM, {name}", simulated=_CORES)
    for level, name in ((3, "64 parts alone"), (1, "from 64 to 4 parts"))
)  # fmt: skip
TIMED_GRADIENT = Method(
    "acc-DiODM, 32 parts",
    partial(_ODM, solver=TimedDSVRG(n_partitions=32), max_iter=STAGES),
    f"acc-DiODM with 32 parts and {STAGES} stages",
    _SERIAL,
    simulated=_CORES,
    ends_early=True,
)
