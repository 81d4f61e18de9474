"""The DC-SVM paper's comparison of kernel machines: accuracy and seconds, as in its Tables 2 and 6.

ijcnn1 is taken as LIBSVM has it. Its test rows reach beyond the ranges of its training rows (-1.3 to 1.3, and -0.9 to
0.9), so that to scale it by the latter costs 1.7 points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC, LinearSVC

from dimargin.baselines import LLSVM, LTPU, BaggedSVM, FastFood, LaSVM, SpSVM, SubsampledSVM
from dimargin.estimators import SVMClassifier
from dimargin.experiments.declarations import Experiment, Figure, Method, Table
from dimargin.strategies import Cascade, DivideAndConquer

_COVTYPE = "covtype.libsvm.binary"
_PARAMETERS = {"ijcnn1": {"C": 32.0, "gamma": 2.0}, _COVTYPE: {"C": 32.0, "gamma": 32.0}}
_OF_OTHER_DATA = {"C": 32.0, "gamma": "scale"}  # of files of the user's


def exact(**parameters: Any) -> SVMClassifier:
    """Make the exact machine, without intercept, as the paper has it."""
    return SVMClassifier(strategy="exact", **parameters)


def dc_early(**parameters: Any) -> SVMClassifier:
    """Make DC-SVM (early): 64 clusters, whose machines are not put together.

    The clusters are found on 4,000 rows, where the paper has 1,000: accuracy differs less from seed to seed so.
    """
    return SVMClassifier(strategy=DivideAndConquer(sample_size=4000), n_levels=3, stop_level=3, **parameters)


def dc(**parameters: Any) -> SVMClassifier:
    """Make DC-SVM: the whole problem, from the clusters' coefficients on."""
    return SVMClassifier(strategy=DivideAndConquer(sample_size=4000), n_levels=3, **parameters)


def cascade(**parameters: Any) -> SVMClassifier:
    """Make the cascade of the paper: one round, and C the same everywhere."""
    return SVMClassifier(strategy=Cascade(rounds=1, coefficients="global"), **parameters)


def svc(**parameters: Any) -> SVC:
    """Make LIBSVM's machine, which has an intercept, with a cache of 2 GB."""
    return SVC(cache_size=2000, **parameters)


def random_fourier(C: float, gamma: Any, random_state: int) -> Pipeline:
    """Make a linear machine of 3,000 random Fourier features."""
    features = RBFSampler(gamma=gamma, n_components=3000, random_state=random_state)
    return make_pipeline(features, LinearSVC(C=C, fit_intercept=False, random_state=random_state))


def fastfood(C: float, gamma: Any, random_state: int) -> Pipeline:
    """Make a linear machine of 3,000 features of FastFood, as many as the paper has."""
    features = FastFood(gamma=gamma, n_components=3000, random_state=random_state)
    return make_pipeline(features, LinearSVC(C=C, fit_intercept=False, random_state=random_state))


def llsvm(**parameters: Any) -> LLSVM:
    """Make LLSVM with 1,000 centres, a third of the paper's."""
    return LLSVM(n_centers=1000, loss="hinge", tol=0.1, **parameters)


def ltpu(**parameters: Any) -> LTPU:
    """Make LTPU with 400 centres; the paper has 3,000."""
    return LTPU(n_centers=400, tol=0.01, **parameters)


def bagging_of_64(**parameters: Any) -> BaggedSVM:
    """Make 64 machines on a 64th of the rows each."""
    return BaggedSVM(n_estimators=64, **parameters)


def boosting(random_state: int) -> HistGradientBoostingClassifier:
    """Make boosted trees, which know neither C nor gamma."""
    return HistGradientBoostingClassifier(random_state=random_state)


def _parameters(data: str, method: str) -> Mapping[str, Any]:
    return {} if method == "boosting" else _PARAMETERS.get(data, _OF_OTHER_DATA)


def _tables_2_and_6() -> dict[tuple[str, str, str], float]:
    """Return the figures of the paper's Table 2, and of its Table 6 for bagging; its exact machine is LIBSVM."""
    methods = ("dc-early", "dc", "svc", "subsample", "lasvm", "cascade", "llsvm", "fastfood", "spsvm", "ltpu")
    seconds_and_percent = {
        "ijcnn1": ((12, 98.35), (41, 98.69), (115, 98.69), (6, 98.24), (251, 98.57), (17.1, 98.08), (38, 98.23),
                   (87, 95.95), (20, 94.92), (248, 96.64)),
        _COVTYPE: ((672, 96.12), (11414, 96.15), (83631, 96.15), (5330, 92.46), (102603, 94.39), (5600, 89.51),
                   (4451, 84.21), (8550, 80.1), (15113, 83.37), (11532, 83.25)),
    }  # fmt: skip
    bagging = {"ijcnn1": (98.24, 95.44), _COVTYPE: (91.81, 88.54)}
    found = {
        (data, method, metric): value
        for data, pairs in seconds_and_percent.items()
        for method, (seconds, percent) in zip(methods, pairs, strict=True)
        for metric, value in (("seconds", seconds), ("accuracy", percent / 100))
    }
    for data, percents in bagging.items():
        for k, percent in zip((16, 64), percents, strict=True):
            found[data, f"bagging of {k}", "accuracy"] = percent / 100
    return found


EXPERIMENT = Experiment(
    name="dcsvm",
    title="Divide and conquer for kernel support vector machines",
    about="Kernel machines and boosted trees on the same rows: how well they predict, and what they take.",
    source="Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014, Table 2",
    data=("ijcnn1", _COVTYPE),
    quick_data=("ijcnn1",),
    methods=(
        Method("exact", exact, "dimargin's exact machine of the whole problem, without intercept"),
        Method("dc-early", dc_early, "dimargin's DC-SVM (early): 64 clusters, the nearest of which predicts"),
        Method("dc", dc, "dimargin's DC-SVM: the whole problem, started by the clusters of three levels"),
        Method("cascade", cascade, "dimargin's CascadeSVM, one round"),
        Method("svc", svc, "scikit-learn's SVC, which is LIBSVM, with its default tolerance", threads="one"),
        Method("subsample", SubsampledSVM, "SVC on a fifth of the rows", threads="one"),
        Method("lasvm", LaSVM, "LaSVM: every row read once, and finished", threads="one"),
        Method("llsvm", llsvm, "LLSVM: a linear machine in the space of 1,000 centres"),
        Method("random-fourier", random_fourier, "a linear machine of 3,000 random Fourier features"),
        Method("fastfood", fastfood, "a linear machine of 3,000 features of FastFood"),
        Method("spsvm", SpSVM, "SpSVM: a basis of 200 rows, chosen one by one", threads="one"),
        Method("ltpu", ltpu, "LTPU: a linear machine of the kernel values with 400 centres"),
        Method("bagging of 16", BaggedSVM, "16 machines on a sixteenth of the rows each, which vote", threads="one"),
        Method("bagging of 64", bagging_of_64, "64 machines on a 64th of the rows each, which vote", threads="one"),
        Method("boosting", boosting, "scikit-learn's boosted trees with default parameters: no kernel machine"),
    ),
    parameters=_parameters,
    tables=(
        Table(
            "Accuracy and time",
            ("accuracy", "seconds", "prediction_seconds"),
            _tables_2_and_6(),
            "The paper's seconds are those of its machine and programs, of 2014.",
        ),
        Table("Certificate and cost", ("gap", "objective", "kernel_evaluations", "support_vectors", "peak_memory")),
    ),
    figures=(Figure("Accuracy against seconds of the fit", "seconds", "accuracy"),),
)  # fmt: skip
