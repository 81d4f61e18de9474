"""Methods of the DiODM paper's comparison, made by what the process of a cell finds by its module."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC, LinearSVC

from dimargin.estimators import LinearODMClassifier, ODMClassifier
from dimargin.strategies import DiODM
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.literal_diodm import ConcatenatingDiODM
from dimargin_bench.experiments.literal_dsvrg import LiteralDSVRG
from dimargin_bench.experiments.replay import TimedDiODM, TimedDSVRG

INTEL = "scikit-learn-intelex"
N_LEVELS = 2
_PARTS = ("the whole problem", "4 parts", "16 parts", "64 parts")  # at each level
_TREES = {"diodm": "DiODM", "cascade": "Ca-ODM", "dip": "DiP-ODM", "dc": "DC-ODM"}
_CORES = "all cores but those that are measured, by tasks that were timed on one, and no messages"
_RESCALING = partial(ODMClassifier, strategy=DiODM(early_stop=False), n_levels=N_LEVELS)
_CONCATENATING = partial(ODMClassifier, strategy=ConcatenatingDiODM(early_stop=False), n_levels=N_LEVELS)
_TIMED = partial(ODMClassifier, strategy=TimedDiODM(early_stop=False), n_levels=3)  # 64 leaves


def intel_svc(**parameters: Any) -> Any:
    """Make the SVC of scikit-learn-intelex, which is imported only where it is used."""
    from sklearnex.svm import SVC as IntelSVC

    return IntelSVC(C=10.0, cache_size=2000, **parameters)


def _tree(strategy: str, level: int) -> Method:
    name = _TREES[strategy]
    make = partial(ODMClassifier, strategy=strategy, n_levels=N_LEVELS, stop_level=level)
    return Method(f"{strategy}, level {level}", make, f"{name}, ended with {_PARTS[level]}", line=name)


TREES = tuple(_tree(strategy, level) for strategy in _TREES for level in range(N_LEVELS, -1, -1))
DIODM = "diodm, level 0"
EXACT = Method("exact", partial(ODMClassifier, strategy="exact"), "dimargin's exact machine of the whole problem")
LANDMARK = Method(
    "landmark",
    partial(ODMClassifier, strategy="landmark"),
    "the machine in the space of landmarks, which the paper does not have",
)
NEWTON = Method(
    "newton",
    partial(LinearODMClassifier, solver="newton"),
    "linear ODM by Newton's method, which the paper does not have",
)
ACC_DIODM = Method(
    "dsvrg", partial(LinearODMClassifier, solver="dsvrg"), "acc-DiODM: distributed SVRG", ends_early=True
)
GRADIENT = (
    ACC_DIODM,
    Method("svrg", partial(LinearODMClassifier, solver="svrg"), "ODM with SVRG, on all rows in one place",
           ends_early=True),
    Method("csvrg", partial(LinearODMClassifier, solver="csvrg"),
           "ODM with SVRG, whose anchors' gradients are those of a core-set", ends_early=True),
)  # fmt: skip

LIBSVM = Method(
    "svc", partial(SVC, C=10.0, cache_size=2000), "scikit-learn's SVC, which is LIBSVM, with C = 10", threads="one"
)
INTEL_SVC = Method("intelex-svc", intel_svc, "scikit-learn-intelex's SVC, with C = 10", requires=INTEL)
LINEAR_SVC = Method("linear-svc", LinearSVC, "scikit-learn's LinearSVC, which is LIBLINEAR, with C = 1", threads="one")
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

LITERAL_TREES = (
    Method("diodm, as printed", partial(_CONCATENATING, stop_level=1),
           "Algorithm 1 as printed: warm starts put together as they are, and an end with 4 parts"),
    Method("diodm, mended, 4 parts", partial(_RESCALING, stop_level=1), "warm starts rescaled, and the same end"),
    Method("diodm, concatenated", _CONCATENATING, "warm starts as printed, and an end with the whole problem"),
    Method("diodm, mended", _RESCALING, "warm starts rescaled, and an end with the whole problem"),
)  # fmt: skip
LITERAL_GRADIENT = (
    Method("acc-diodm, as printed", LiteralDSVRG,
           "Algorithm 2 as printed: line 15 without its parenthesis, every row taken once in all stages together",
           threads="one", problem="linear"),
    Method("acc-diodm, line 15 mended", partial(LiteralDSVRG, parenthesis=True),
           "the same with the parenthesis", threads="one", problem="linear"),
    Method("acc-diodm, mended", partial(LinearODMClassifier, solver="dsvrg", max_iter=15, fit_intercept=False),
           "every row taken once in each of 15 stages", problem="linear", ends_early=True),
    Method("newton, no intercept", partial(LinearODMClassifier, solver="newton", fit_intercept=False), "the optimum",
           problem="linear"),
)  # fmt: skip

TIMED_TREES = tuple(
    Method(f"DiODM, {_PARTS[level]}", partial(_TIMED, stop_level=level),
           f"DiODM from 64 parts on, ended with {_PARTS[level]}", simulated=_CORES)
    for level in (3, 1, 0)
)  # fmt: skip
TIMED_GRADIENT = Method(
    "acc-DiODM",
    partial(LinearODMClassifier, solver=TimedDSVRG(n_partitions=32), max_iter=15),
    "acc-DiODM with 32 parts and 15 stages",
    simulated=_CORES,
    ends_early=True,
)
