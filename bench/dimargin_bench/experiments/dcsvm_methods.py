"""Methods of the DC-SVM paper's comparison, made by what the process of a cell finds by its module.

The first form of a method has the parameters that the paper prints (sections 4 and 5); a second
form, called "ours", has those that serve better here. The page says what differs from the paper's
Algorithm 1: in the part "table-2", and below in what the methods are.

LTPU has the squared hinge because its features, kernel values of which many are alike, make
coordinate descent on the dual of the hinge too slow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from sklearn.dummy import DummyClassifier
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

K, N_LEVELS = 4, 4
_PRINTED: dict[str, Any] = {"sample_size": 1000, "clustering_kernel": "same", "level_tol": 1e-3}
_SAMPLE_SIZE = 4000  # With the paper's 1,000 rows, accuracy differs more from seed to seed.
_EXACT = partial(SVMClassifier, fit_intercept=False, strategy="exact")
svc = partial(SVC, cache_size=2000)  # megabytes
_DC = partial(SVMClassifier, fit_intercept=False, strategy=DivideAndConquer(**_PRINTED), branching=K, n_levels=N_LEVELS)
_OURS = partial(SVMClassifier, fit_intercept=False, strategy=DivideAndConquer(_SAMPLE_SIZE), n_levels=3)
_CASCADE = partial(
    SVMClassifier, fit_intercept=False, strategy=Cascade(rounds=1, coefficients="global", level_tol=1e-3)
)
_LINEAR: dict[str, Any] = {"loss": "hinge", "tol": 0.1}  # LIBLINEAR's coordinate descent, with its default tolerance


def _linear_svm(C: float, random_state: int) -> LinearSVC:
    return LinearSVC(C=C, fit_intercept=False, max_iter=10_000, random_state=random_state, **_LINEAR)


def random_fourier(C: float, gamma: Any, random_state: int) -> Pipeline:
    """Make a linear machine of 3,000 random Fourier features."""
    features = RBFSampler(gamma=gamma, n_components=3000, random_state=random_state)
    return make_pipeline(features, _linear_svm(C, random_state))


def fastfood(C: float, gamma: Any, random_state: int, n_features: int = 3000) -> Pipeline:
    """Make a linear machine of FastFood's features, of as many whole blocks as come closest to a number of features.

    A frequency gives a cosine and a sine, which are two features of the linear machine.
    """
    features = FastFood(n_components=n_features // 2, whole_blocks=True, gamma=gamma, random_state=random_state)
    return make_pipeline(features, _linear_svm(C, random_state))


def clusters_alone(n_clusters: int, strategy: DivideAndConquer, **parameters: Any) -> SVMClassifier:
    """Make the machines of so many clusters of one level, which are not put together."""
    return SVMClassifier(
        fit_intercept=False, strategy=strategy, branching=n_clusters, n_levels=1, stop_level=1, **parameters
    )


def early_of(k: int = 64, **parameters: Any) -> SVMClassifier:
    """Make DC-SVM (early) of 256, 64, 16 or 4 clusters, found from the support vectors of the level below."""
    return _DC(stop_level={K**level: level for level in range(1, N_LEVELS + 1)}[k], **parameters)


def bagged_of(k: int, **parameters: Any) -> BaggedSVM:
    """Make k machines of an equal share of the rows, which vote."""
    return BaggedSVM(n_estimators=k, **parameters)


EARLY = Method(
    "dc-early",
    early_of,
    "dimargin's DC-SVM (early): the machine of the nearest of 64 clusters, which are "
    "found from the support vectors of 256; in Table 6, of k clusters; Table 2 says how it differs from the paper's",
)
DC = Method(
    "dc",
    _DC,
    "dimargin's DC-SVM: the whole problem, started by 256, 64, 16 and 4 clusters; Table 2 says how it differs from the "
    "paper's",
)
LIBSVM = Method(
    "svc",
    svc,
    "scikit-learn's SVC, which is LIBSVM, with an intercept, which the paper's LIBSVM does not have",
    threads="one",
    problem="with intercept",
)
LASVM = Method("lasvm", LaSVM, "LaSVM with an intercept: every row read once, and finished", threads="one")
_CASCADE_PARTS = "a power of four of random parts, at least 4, the fewest with at most 4,096 rows each"
CASCADE = Method("cascade", _CASCADE, f"dimargin's CascadeSVM: one round from {_CASCADE_PARTS}", ends_early=True)
_LLSVM = Method(
    "llsvm",
    partial(LLSVM, n_centers=3000, **_LINEAR),
    "LLSVM: a linear machine, of the hinge, in the space of 3,000 centres",
    threads="one",
)
_FASTFOOD = Method(
    "fastfood",
    fastfood,
    "a linear machine, of the hinge, of about 3,000 features of FastFood, cosines and sines",
    threads="one",
)
_SPSVM = Method(
    "spsvm",
    SpSVM,
    "SpSVM: a basis of 200 rows, chosen one by one, for the squared hinge with lambda = 1 / (2 C)",
    threads="one",
)
_LTPU = Method(
    "ltpu",
    partial(LTPU, n_centers=3000, tol=0.01),
    "LTPU: a linear machine, of the squared hinge, of the kernel values with 3,000 centres",
    threads="one",
)
SUBSAMPLE = Method("subsample", SubsampledSVM, "SVC, with an intercept, on a fifth of the rows", threads="one")
RIVALS = (SUBSAMPLE, LASVM, CASCADE, _LLSVM, _FASTFOOD, _SPSVM, _LTPU)
"""The rivals of Table 2 beside LIBSVM, in its order."""

EXACT = Method("exact", _EXACT, "dimargin's exact machine of the whole problem, without intercept")
OUR_EARLY = Method(
    "dc-early, ours",
    partial(_OURS, stop_level=3),
    "dc-early with 64 clusters of one level, found on 4,000 rows, by a wider kernel",
)
OUR_DC = Method(
    "dc, ours",
    _OURS,
    "dc from 64, 16 and 4 clusters, found on 4,000 rows by a wider kernel; the clusters are solved to a gap of 0.1",
)
WITH_INTERCEPT = Method(
    "exact, intercept",
    partial(_EXACT, fit_intercept=True),
    "dimargin's exact machine with an intercept",
    problem="with intercept",
)
BOOSTING = Method(
    "boosting",
    HistGradientBoostingClassifier,
    "scikit-learn's boosted trees with default parameters: no kernel machine",
)
OUR_RIVALS = (
    Method("llsvm, ours", partial(LLSVM, n_centers=1000, **_LINEAR), "LLSVM with 1,000 centres", threads="one"),
    Method("ltpu, ours", partial(LTPU, n_centers=400, tol=0.01), "LTPU with 400 centres",
           threads="one"),
    Method("random-fourier", random_fourier, "a linear machine of 3,000 random Fourier features",
           threads="one, all for a product"),
    BOOSTING,
)  # fmt: skip
DC_OF_ONE_LEVEL = Method("dc, one level", partial(_OURS, n_levels=1),
                         "dimargin's DC-SVM: the whole problem, started by 4 clusters")  # fmt: skip
SIZES = Method("sizes", DummyClassifier, "the most frequent class, for the sizes of the data", threads="one")
BAGGING = Method("bagging", bagged_of, "k machines, each of n/k rows drawn from all without replacement, which vote")
KMEANS_CLUSTERS = Method(
    "k-means", partial(clusters_alone, strategy=BoundedDivideAndConquer(10_000, clustering_kernel="same")),
    "machines of clusters of kernel k-means on all rows",
)  # fmt: skip
RANDOM_CLUSTERS = Method(
    "random", RandomClusters, "machines of random parts of the rows, each with its share of both classes"
)


def _predicting(name: str, rule: Literal["naive", "bcm", "early"], about: str, **options: Any) -> Method:
    strategy = DivideAndConquer(**{**_PRINTED, **options}, prediction=rule)
    return Method(name, partial(clusters_alone, strategy=strategy), f"k clusters: {about}")


PREDICTING = (
    _predicting("prediction by (5)", "naive", "all machines summed up"),
    _predicting("bcm", "bcm", "a Bayesian committee of all machines, whose log odds are calibrated"),
    _predicting("early prediction by (6)", "early", "the machine of the nearest cluster"),
    _predicting("early prediction by (6), ours", "early", "clusters found on 4,000 rows, by a wider kernel",
                sample_size=_SAMPLE_SIZE, clustering_kernel="wide"),
)  # fmt: skip
"""The rules of Table 1, and the last with clusters of ours."""


def levels(n_levels: int) -> tuple[Method, ...]:
    """Return DC-SVM ended at every level, from the most clusters to the whole problem.

    More than 256 clusters are found in two steps, which give about as many.
    """
    ended = [
        "the whole problem",
        *(f"{'about ' * (level > 4)}{K**level:,} clusters" for level in range(1, n_levels + 1)),
    ]
    return tuple(
        Method(f"dc, level {level}", partial(_DC, n_levels=n_levels, stop_level=level),
               f"dimargin's DC-SVM with {n_levels} levels of clusters, ended with {ended[level]}", line="dc")
        for level in range(n_levels, -1, -1)
    )  # fmt: skip


def cascade_levels(n_levels: int) -> tuple[Method, ...]:
    """Return the cascade ended at every level, of as many parts as DC-SVM has clusters there."""
    ended = ["one part", *(f"{K**level:,} parts" for level in range(1, n_levels + 1))]
    return tuple(
        Method(f"cascade, level {level}", partial(_CASCADE, branching=K, n_levels=n_levels, stop_level=level),
               f"dimargin's CascadeSVM from {K**n_levels:,} random parts, ended with {ended[level]}",
               ends_early=True, line="cascade")
        for level in range(n_levels, -1, -1)
    )  # fmt: skip


LIBSVM_STOPPED = tuple(
    Method(f"svc, {steps:,} steps", partial(svc, max_iter=steps),
           f"SVC, with an intercept, stopped after {steps:,} steps", threads="one", problem="with intercept",
           line="svc", ends_early=True)
    for steps in (300, 1000, 3000, 10_000, 30_000, 100_000)
)  # fmt: skip


def _varied(
    method: Method, parameter: str, values: tuple[float, ...], about: str, make: Any = None
) -> tuple[Method, ...]:
    """Return a method with several values of a parameter, which are one line of a picture.

    `about` is a text with a place for the value.
    """
    return tuple(
        replace(method, name=f"{method.name}, {parameter}={value:g}", about=about.format(value),
                make=partial(make or method.make, **{parameter: value}), line=method.name)
        for value in values
    )  # fmt: skip


def cascade_to(tol: float, **parameters: Any) -> SVMClassifier:
    """Make the cascade whose parts are all solved to one tolerance."""
    return _CASCADE(strategy=Cascade(rounds=1, coefficients="global", level_tol=tol), tol=tol, **parameters)


_TOLERANCES = (0.1, 0.01, 1e-3)
_EXACT_TO = f"{EXACT.about}, to a gap of {{:g}}"
_REFERENCES = (
    *_varied(EXACT, "tol", (1e-6,), _EXACT_TO),
    *_varied(WITH_INTERCEPT, "tol", (1e-6,), f"{WITH_INTERCEPT.about}, to a gap of {{:g}}"),
)
REFERENCES = tuple(machine.name for machine in _REFERENCES)
"""Machines whose objective is the best of a picture."""
_SOLVERS = (
    *levels(N_LEVELS),
    *_varied(LIBSVM, "tol", _TOLERANCES, f"{LIBSVM.about}; its tolerance is {{:g}}"),
    *_varied(CASCADE, "tol", _TOLERANCES, f"{CASCADE.about}, all solved to a gap of {{:g}}", cascade_to),
)
_EXACT_ON_THE_WAY = (*_varied(EXACT, "tol", _TOLERANCES, _EXACT_TO), *_REFERENCES)
ON_THE_WAY = (
    *_SOLVERS,
    *_varied(LASVM, "n_epochs", (1, 2), "LaSVM with an intercept, finished after reading all rows; passes: {}"),
    *_varied(_LTPU, "n_centers", (300, 1000, 3000), _LTPU.about.replace("3,000", "{:,}")),
    *_varied(_LLSVM, "n_centers", (300, 1000, 3000), _LLSVM.about.replace("3,000", "{:,}")),
    *_varied(_FASTFOOD, "n_features", (300, 1000, 3000), _FASTFOOD.about.replace("3,000", "{:,}")),
    *_varied(_SPSVM, "n_basis", (50, 100, 200), _SPSVM.about.replace("200", "{}")),
    *_EXACT_ON_THE_WAY,
)
"""The methods of Figures 3 and 5, each with what the paper varies of it, and the exact machine."""
POLYNOMIAL_ON_THE_WAY = (*_SOLVERS, LASVM, *_EXACT_ON_THE_WAY)
"""Those of Figure 4: the paper leaves out LLSVM, FastFood and LTPU, and SpSVM has the RBF kernel alone here."""
