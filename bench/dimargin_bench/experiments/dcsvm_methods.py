"""Methods of the DC-SVM paper's comparison, made by what the process of a cell finds by its module."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC, LinearSVC

from dimargin.estimators import SVMClassifier
from dimargin.strategies import Cascade, DivideAndConquer
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.random_clusters import RandomClusters
from dimargin_bench.experiments.theorem_1 import BoundedDivideAndConquer
from dimargin_bench.kernel_rivals import LLSVM, LTPU, BaggedSVM, FastFood, LaSVM, SpSVM, SubsampledSVM

_SAMPLE_SIZE = 4000  # rows that clusters are found on; with the paper's 1,000 accuracy differs more from seed to seed


_CLUSTERED = partial(SVMClassifier, strategy=DivideAndConquer(_SAMPLE_SIZE))
_EXACT = partial(SVMClassifier, strategy="exact")
svc = partial(SVC, cache_size=2000)  # megabytes


def random_fourier(C: float, gamma: Any, random_state: int) -> Pipeline:
    """Make a linear machine of 3,000 random Fourier features."""
    features = RBFSampler(gamma=gamma, n_components=3000, random_state=random_state)
    return make_pipeline(features, LinearSVC(C=C, fit_intercept=False, random_state=random_state))


def fastfood(C: float, gamma: Any, random_state: int) -> Pipeline:
    """Make a linear machine of 3,000 features of FastFood, as many as the paper has."""
    features = FastFood(gamma=gamma, n_components=3000, random_state=random_state)
    return make_pipeline(features, LinearSVC(C=C, fit_intercept=False, random_state=random_state))


def clusters_alone(n_clusters: int, strategy: DivideAndConquer, **parameters: Any) -> SVMClassifier:
    """Make the machines of so many clusters, which are not put together."""
    return SVMClassifier(strategy=strategy, branching=n_clusters, n_levels=1, stop_level=1, **parameters)


def clusters_with_bound(n_clusters: int, **parameters: Any) -> SVMClassifier:
    """Make the machines of so many clusters, with the bound of Theorem 1."""
    strategy = BoundedDivideAndConquer(_SAMPLE_SIZE)
    return SVMClassifier(strategy=strategy, branching=n_clusters, n_levels=1, stop_level=1, **parameters)


EXACT = Method("exact", _EXACT, "dimargin's exact machine of the whole problem, without intercept")
EARLY = Method(
    "dc-early",
    partial(_CLUSTERED, n_levels=3, stop_level=3),
    "dimargin's DC-SVM (early): 64 clusters, the nearest of which predicts",
)
DC = Method(
    "dc",
    partial(_CLUSTERED, n_levels=3),
    "dimargin's DC-SVM: the whole problem, started by the clusters of three levels",
)
DC_OF_ONE_LEVEL = Method(
    "dc, one level", partial(_CLUSTERED, n_levels=1), "dimargin's DC-SVM: the whole problem, started by 4 clusters"
)
CASCADE = Method(
    "cascade",
    partial(SVMClassifier, strategy=Cascade(rounds=1, coefficients="global")),
    "dimargin's CascadeSVM, one round",
)
WITH_INTERCEPT = Method(
    "exact, intercept",
    partial(_EXACT, fit_intercept=True),
    "dimargin's exact machine with an intercept",
    problem="with intercept",
)
LIBSVM = Method(
    "svc", svc, "scikit-learn's SVC, which is LIBSVM, with an intercept", threads="one", problem="with intercept"
)
BOOSTING = Method(
    "boosting",
    HistGradientBoostingClassifier,
    "scikit-learn's boosted trees with default parameters: no kernel machine",
)
SMALL_RIVALS = (
    Method("subsample", SubsampledSVM, "SVC on a fifth of the rows", threads="one"),
    Method("lasvm", LaSVM, "LaSVM: every row read once, and finished", threads="one"),
    Method(
        "llsvm",
        partial(LLSVM, n_centers=1000, loss="hinge", tol=0.1),
        "LLSVM: a linear machine in the space of 1,000 centres",
    ),
    Method("random-fourier", random_fourier, "a linear machine of 3,000 random Fourier features"),
    Method("fastfood", fastfood, "a linear machine of 3,000 features of FastFood"),
    Method("spsvm", SpSVM, "SpSVM: a basis of 200 rows, chosen one by one", threads="one"),
    Method(
        "ltpu", partial(LTPU, n_centers=400, tol=0.01), "LTPU: a linear machine of the kernel values with 400 centres"
    ),
    Method("bagging of 16", BaggedSVM, "16 machines on a sixteenth of the rows each, which vote", threads="one"),
    Method(
        "bagging of 64",
        partial(BaggedSVM, n_estimators=64),
        "64 machines on a 64th of the rows each, which vote",
        threads="one",
    ),
)
LEVELS = tuple(
    Method(
        f"dc, level {level}",
        partial(_CLUSTERED, n_levels=4, stop_level=level),
        f"dimargin's DC-SVM, ended with {4**level} clusters",
    )
    for level in (4, 3, 2, 1)
)
LOOSE = tuple(
    Method(f"exact, tol={tol:g}", partial(_EXACT, tol=tol), "dimargin's exact machine to a loose tolerance")
    for tol in (1.0, 0.1, 0.01)
)
KMEANS_CLUSTERS = Method(
    "k-means",
    partial(clusters_alone, strategy=DivideAndConquer(_SAMPLE_SIZE, theorem_1=True)),
    "machines of clusters of two-step kernel k-means",
)
RANDOM_CLUSTERS = Method("random", RandomClusters, "machines of random parts of the rows")


def predicting(n_clusters: int) -> tuple[Method, ...]:
    """Return the methods of Table 1 with so many clusters."""
    about: dict[Literal["naive", "bcm", "early"], str] = {
        "naive": "all machines summed up",
        "bcm": "a Bayesian committee of all machines",
        "early": "the machine of the nearest cluster",
    }
    return tuple(
        Method(
            f"{rule}, {n_clusters} clusters",
            partial(clusters_alone, n_clusters, DivideAndConquer(_SAMPLE_SIZE, prediction=rule)),
            f"{n_clusters} clusters: {text}",
        )
        for rule, text in about.items()
    )
