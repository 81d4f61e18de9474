"""The DiODM paper's comparison of distributed Optimal margin Distribution Machines, as in its Figures 1 and 2.

The paper draws accuracy and time of every method as curves over the levels of its tree, or over the stages of gradient
methods. Here every level is a method of its own, ended there by `stop_level`: level 2 has 16 parts, level 1 has 4, and
level 0 is the whole problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC, LinearSVC

from dimargin.estimators import LinearODMClassifier, ODMClassifier
from dimargin.experiments.declarations import Experiment, Figure, Method, Part, Sample, Table

_LEVELS = 2
_LEFT = ("the whole problem", "4 parts", "16 parts")  # at each level
_TREES = {"diodm": "DiODM", "cascade": "Ca-ODM", "dip": "DiP-ODM", "dc": "DC-ODM"}
_STAGES = {"dsvrg": "acc-DiODM", "svrg": "ODM with SVRG", "csvrg": "ODM with SVRG on a core-set"}
CHOSEN: dict[str, tuple[float | str, float | str, float, float]] = {
    "svmguide1": (3.2, 1e5, 0.3, 0.5),
    "phishing": (0.06, 1e5, 0.1, 0.1),
    "a9a": (0.02, 1e4, 0.1, 0.1),
    "a7a": (0.02, 1e4, 0.1, 0.1),
    "cod-rna": (0.56, 1e6, 0.8, 0.5),
    "ijcnn1": (2.0, 1e6, 0.3, 0.5),
    "skin_nonskin": (330.0, 1e6, 0.3, 0.5),
    "SUSY": (0.2, 1e5, 0.8, 0.5),
    "SUSY-30k": (0.2, 1e5, 0.8, 0.5),
}
"""Gamma, lam, theta and upsilon that ODMClassifierCV(random_state=0) chose on 80% of the rows, scaled to [0, 1]: of
svmguide1 on all training rows, of SUSY on 30,000 rows; a7a, part of a9a, has those of a9a."""
OF_OTHER_DATA: tuple[float | str, float | str, float, float] = ("scale", "auto", 0.3, 0.5)
_C = 10.0  # of scikit-learn's SVC


def odm(random_state: int, strategy: str = "exact", **parameters: Any) -> ODMClassifier:
    """Make an ODM with a kernel; `stop_level` in `parameters` ends a tree at that level."""
    return ODMClassifier(strategy=strategy, random_state=random_state, **parameters)


def linear(random_state: int, solver: str, **parameters: Any) -> LinearODMClassifier:
    """Make a linear ODM."""
    return LinearODMClassifier(solver=solver, random_state=random_state, **parameters)


def svc(gamma: Any, random_state: int) -> SVC:
    """Make scikit-learn's SVC, with a cache of 2 GB."""
    return SVC(C=_C, gamma=gamma, cache_size=2000, random_state=random_state)


def linear_svc(random_state: int) -> LinearSVC:
    """Make scikit-learn's LinearSVC, which is LIBLINEAR."""
    return LinearSVC(random_state=random_state)


def boosting(random_state: int) -> HistGradientBoostingClassifier:
    """Make boosted trees, with default parameters."""
    return HistGradientBoostingClassifier(random_state=random_state)


def _parameters(data: str, method: str) -> Mapping[str, Any]:
    gamma, lam, theta, upsilon = CHOSEN.get(data, OF_OTHER_DATA)
    loss = {"lam": lam, "theta": theta, "upsilon": upsilon}
    name, _, level = method.partition(", level ")
    if name in _TREES:
        return {"strategy": name, "n_levels": _LEVELS, "stop_level": int(level), "gamma": gamma, **loss}
    if name in ("exact", "landmark"):
        return {"strategy": name, "gamma": gamma, **loss}
    if name == "svc":
        return {"gamma": gamma}
    if name in _STAGES or name == "newton":
        return {"solver": name, **loss}
    return {}


def _figures_1_and_2() -> dict[tuple[str, str, str], float]:
    """Return the highest tick of the accuracy axis of the paper's panels, at or a little below which curves end."""
    rbf = {"phishing": 92, "a7a": 83, "cod-rna": 91, "ijcnn1": 93, "skin_nonskin": 94, "SUSY": 75}
    gradient = {"phishing": 92, "a7a": 83, "cod-rna": 92, "skin_nonskin": 90, "SUSY": 74, "gisette": 97}
    panels = {"diodm, level 0": rbf, "dsvrg": gradient}
    return {
        (data, method, "accuracy"): percent / 100 for method, found in panels.items() for data, percent in found.items()
    }


_DATA = ("svmguide1", "phishing", "a7a", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY", "SUSY-30k", "gisette")

_PARTS = (
    Part(
        name="figures-1-and-2",
        title="Figures 1 and 2: accuracy and time",
        about="Trees of partitions, stopped at each of their levels, and gradient methods, on the same rows.",
        data=tuple(map(Sample, _DATA)),
        quick_data=tuple(map(Sample, ("svmguide1", "phishing", "cod-rna"))),
        takes_files=True,
        methods=(
            Method("exact", odm, "dimargin's exact machine of the whole problem"),
            *(
                Method(f"{strategy}, level {level}", odm, f"{name}, ended with {_LEFT[level]}")
                for strategy, name in _TREES.items()
                for level in range(_LEVELS, -1, -1)
            ),
            Method("landmark", odm, "the machine in the space of landmarks, which the paper does not have"),
            Method("newton", linear, "linear ODM by Newton's method, which the paper does not have"),
            *(Method(solver, linear, f"{name}, linear") for solver, name in _STAGES.items()),
            Method("svc", svc, "scikit-learn's SVC, which is LIBSVM, with C = 10", threads="one"),
            Method("linear-svc", linear_svc, "scikit-learn's LinearSVC, with C = 1", threads="one"),
            Method("boosting", boosting, "scikit-learn's boosted trees with default parameters: no kernel machine"),
        ),
        parameters=_parameters,
        tables=(
            Table(
                "Accuracy and time",
                ("accuracy", "seconds", "prediction_seconds"),
                _figures_1_and_2(),
                "The paper has pictures only: its column is the highest tick of an axis of accuracy, near which the "
                "curves end. Parameters are the same for all levels and strategies.",
            ),
            Table("Certificate and cost", ("gap", "objective", "kernel_evaluations", "support_vectors", "peak_memory")),
        ),
        figures=(Figure("Accuracy against seconds of the fit", "seconds", "accuracy"),),
    ),
)

EXPERIMENT = Experiment(
    name="diodm",
    title="Distributed Optimal margin Distribution Machines",
    about="Figures of a paper, made again and beside its own.",
    source="DiODM: Distributed Optimal margin Distribution Machine",
    parts=_PARTS,
)
