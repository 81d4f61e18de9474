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
_MENDED_TREE = (
    "Algorithm 1 mended: rescaled starts, the mean of the last parts' machines, strata by landmark and label, blocks "
    "of rows in place of single variables"
)
_WHOLE_WEIGHT = "here the loss of every part has the weight of all rows"
_TREES_ABOUT = {
    "diodm": _MENDED_TREE,
    "cascade": f"the cascade of Graf et al. for the ODM; {_WHOLE_WEIGHT}",
    "dip": "DPP-ODM in the paper's Section 4.2 and Figure 1: DiP of Singh et al. for the ODM, a cascade of parts that "
    f"have the same share of every cluster and label; {_WHOLE_WEIGHT}, and clusters are of all rows together, not of "
    "each class",
    "dc": "divide and conquer of Hsieh et al. for the ODM, whose parts are clusters in the space of the kernel",
}
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
    kind = DiODM(early_stop=False) if strategy == "diodm" and level == 0 else strategy
    make = partial(ODMClassifier, strategy=kind, n_levels=N_LEVELS, stop_level=level)
    return Method(f"{name}, {_PARTS[level]}", make, f"{_TREES_ABOUT[strategy]}; it ends with {_PARTS[level]}",
                  line=name)  # fmt: skip


TREES = tuple(_tree(strategy, level) for strategy in _TREES for level in range(N_LEVELS, -1, -1))
ENDS = {_PARTS[level]: tuple(f"{name}, {_PARTS[level]}" for name in _TREES.values()) for level in (1, 0)}
"""The trees where the loop of Algorithm 1 ends, and where the paper's text does; DiODM is the first."""
(DIODM, *RIVALS), (DIODM_WHOLE, *_) = ENDS.values()
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
NO_INTERCEPT = "newton, no intercept"
NEWTON_PLAIN = Method(
    NO_INTERCEPT,
    partial(_ODM, solver="newton"),
    "linear ODM by Newton's method, to its optimum; the paper does not have it",
    problem="linear",
)


def _thirds(name: str, make: Any, about: str, threads: str) -> tuple[Method, ...]:
    return tuple(
        Method(f"{name}, {third}/3 of the stages", partial(make, max_iter=third * STAGES // 3, tol=_NEVER),
               f"{about}; after {third}/3 of {STAGES} stages", threads, line=name, ends_early=True)
        for third in (1, 2, 3)
    )  # fmt: skip


_MENDED_DSVRG = (
    "Algorithm 2 mended: line 15 with its parenthesis, every row once in each stage, strata by landmark and label; a "
    "stage that makes the objective worse is discarded, and the step halved"
)
ACC_DIODM = _thirds("acc-DiODM", partial(_ODM, solver=LinearDSVRG()), _MENDED_DSVRG, _SERIAL)
ACC_DIODM_OURS = Method(
    "acc-DiODM" + OURS,
    partial(LinearODMClassifier, solver=LinearDSVRG(), max_iter=STAGES, tol=_NEVER),
    "acc-DiODM with an intercept, after all stages",
    _SERIAL,
    ends_early=True,
)
SVRG = _thirds("ODM_svrg", partial(_ODM, solver="svrg"), "SVRG of Johnson and Zhang, on all rows in one place", "one")
CSVRG = _thirds(
    "ODM_csvrg",
    partial(_ODM, solver="csvrg"),
    "CSVRG of Tan et al.: SVRG, whose gradients at anchors are those of a core-set, as long as it is small; the rule "
    "for its radius is ours",
    "one",
)
GRADIENT = (*ACC_DIODM, *SVRG, *CSVRG)
OF_THE_PAPER = frozenset(method.name for method in (*TREES, *GRADIENT))

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
           "rescaled starts, blocks of rows, landmarks among 2,000 rows, and strata that are divided by labels, too"),
)  # fmt: skip
PRINTED_GRADIENT = "acc-DiODM, as printed"
LITERAL_GRADIENT = (
    Method(PRINTED_GRADIENT, LiteralDSVRG,
           "Algorithm 2: line 15 without its parenthesis, every row taken once in all stages together",
           threads="one", problem="linear"),
    Method("acc-DiODM, line 15 mended", partial(LiteralDSVRG, parenthesis=True),
           "Algorithm 2 with the parenthesis", threads="one", problem="linear"),
    Method("acc-DiODM, mended", partial(_ODM, solver=LinearDSVRG(), max_iter=STAGES),
           f"{_MENDED_DSVRG}; at most {STAGES} stages", _SERIAL, problem="linear", ends_early=True),
    NEWTON_PLAIN,
)  # fmt: skip

TIMED_TREES = tuple(
    Method(f"DiODM, {name}",
           partial(ODMClassifier, strategy=TimedDiODM(early_stop=False), n_levels=3, stop_level=level),
           f"{_MENDED_TREE}; {about}", simulated=_CORES)
    for level, name, about in (
        (3, "64 parts alone", "the 64 parts of the lowest level, without merging any"),
        (1, "from 64 to 4 parts", "64 parts, merged until there are 4"),
    )
)  # fmt: skip
TIMED_GRADIENT = Method(
    "acc-DiODM, 32 parts",
    partial(_ODM, solver=TimedDSVRG(n_partitions=32), max_iter=STAGES),
    f"{_MENDED_DSVRG}; with 32 parts and at most {STAGES} stages",
    _SERIAL,
    simulated=_CORES,
    ends_early=True,
)
