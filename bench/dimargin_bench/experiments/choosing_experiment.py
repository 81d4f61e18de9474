"""The measurements of docs/choosing.md: strategies beside "auto", kernel machines beside linear and boosted ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from dimargin.estimators import LinearODMClassifier, ODMClassifier, SVMClassifier
from dimargin_bench.experiments.choosing_answers import AUTO, BOOSTING, is_auto_fast, is_boosting_better
from dimargin_bench.experiments.dcsvm_methods import svc
from dimargin_bench.experiments.dcsvm_published import COVTYPE, PARAMETERS
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Method, Part, Sample

# gamma, lam, theta and upsilon that ODMClassifierCV(random_state=0) chose on 80% of the rows, scaled
# to [0, 1], of svmguide1 on all training rows, when docs/choosing.md was measured
_CHOSEN = {
    "svmguide1": (3.2, 1e5, 0.3, 0.5),
    "phishing": (0.06, 1e5, 0.1, 0.1),
    "a9a": (0.02, 1e4, 0.1, 0.1),
    "cod-rna": (0.56, 1e6, 0.8, 0.5),
    "ijcnn1": (2.0, 1e6, 0.3, 0.5),
    "skin_nonskin": (330.0, 1e6, 0.3, 0.5),
    "SUSY-30k": (0.2, 1e5, 0.8, 0.5),
}
_OF_OTHER_DATA = ("scale", "auto", 0.3, 0.5)
_STRATEGIES = ("exact", "diodm", "dc", "cascade", "dip", "landmark")
_C = 10.0
_SIZES = {  # training rows, None for all
    "svmguide1": (1000, 2000, None),
    "phishing": (2000, 5000, None),
    "usps": (2000, 4000, None),
    "reuters": (2000, 4000, None),
    "a9a": (2000, 10_000, None),
    "SUSY-30k": (2000, 10_000, None),
    "cod-rna": (2000, 10_000, None),
    "ijcnn1": (2000, 10_000, None),
    "skin_nonskin": (2000, 20_000, None),
}
_BEYOND_AUTO_EXACT = Sample(COVTYPE, 120_000, max_seeds=1)  # Above 100,000 rows, "auto" chooses another strategy.
_WITHOUT_LARGE = (
    *(Sample(name, n) for name, sizes in _SIZES.items() for n in sizes),
    Sample(COVTYPE, 2000),
    Sample(COVTYPE, 20_000, max_seeds=1),
)
_DATA = (*_WITHOUT_LARGE, _BEYOND_AUTO_EXACT)
_QUICK = (Sample("svmguide1", 1000), Sample("cod-rna", 2000))


def svm(random_state: int, strategy: str, **parameters: Any) -> SVMClassifier:
    """Make a support vector machine; that of landmarks has the squared hinge, which it needs."""
    loss = "squared_hinge" if strategy == "landmark" else "hinge"
    return SVMClassifier(fit_intercept=False, strategy=strategy, loss=loss, random_state=random_state, **parameters)


def boosting(random_state: int) -> Pipeline:
    """Make boosted trees with default parameters, which are given sparse rows as dense ones."""
    dense = FunctionTransformer(_as_dense, accept_sparse=True)
    return make_pipeline(dense, HistGradientBoostingClassifier(random_state=random_state))


def _as_dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _strategies(name: str, make: Any, landmark: str) -> tuple[Method, ...]:
    """Return an estimator with "auto" and with every strategy; that of landmarks solves a problem of its own."""
    return (
        Method(f"{name} {AUTO}", partial(make, strategy=AUTO), 'with strategy="auto"'),
        *(
            Method(f"{name} {one}", partial(make, strategy=one), f'with strategy="{one}"')
            for one in _STRATEGIES
            if one != "landmark"
        ),
        Method(f"{name} landmark", partial(make, strategy="landmark"), landmark, problem="landmark"),
    )


_ODM = _strategies("ODM", ODMClassifier, "the ODM in the space of 1,000 landmarks")
_SVM = _strategies("SVM", svm, "the machine of the squared hinge, in the space of 1,000 landmarks")
_BOOSTING = Method(BOOSTING, boosting, "scikit-learn's boosted trees with default parameters: no kernel machine")
_ESTIMATORS = (
    _ODM[0],
    _ODM[-1],
    _SVM[0],
    Method("linear ODM", LinearODMClassifier, "LinearODMClassifier with default parameters"),
    Method("LinearSVC", LinearSVC, "scikit-learn's LinearSVC with default parameters", threads="one"),
    _BOOSTING,
)
_LIBSVM = Method("SVC", svc, "scikit-learn's SVC, which is LIBSVM, with the same C and gamma", threads="one")


def _parameters(data: str, method: str) -> Mapping[str, Any]:
    """Return the parameters that the experiments of the papers have, or else gamma of the ODM, and C = 10."""
    gamma, lam, theta, upsilon = _CHOSEN.get(data, _OF_OTHER_DATA)
    hinge = PARAMETERS.get(data, {"C": _C, "gamma": gamma})
    if method.startswith("ODM"):
        return {"gamma": hinge["gamma"], "lam": lam, "theta": theta, "upsilon": upsilon}
    return hinge if method.startswith("SV") else {}


def _compared(*metrics: str, to: str) -> Iterable[Comparison]:
    titles = {"seconds": "Time of the fit", "accuracy": "Accuracy", "prediction_seconds": "Time of the prediction"}
    for metric in metrics:
        yield Comparison(titles[metric], metric, "data", relative_to="" if metric == "accuracy" else to)


def _of_strategies(name: str, estimator: str, methods: tuple[Method, ...]) -> Part:
    auto = methods[0].name
    return Part(
        name=name,
        title=f"Strategies of {estimator}",
        about='Every strategy by its name beside "auto", to the default gap of 1e-3, with the same parameters.',
        data=_DATA,
        quick_data=_QUICK,
        methods=methods,
        parameters=_parameters,
        answer=is_auto_fast,
        tables=tuple(_compared("seconds", "accuracy", to=auto)),
        figures=(Figure("Seconds beside those of auto", "rows", "seconds", joined=True, relative_to=auto),),
    )


_PARTS = (
    _of_strategies("odm-strategies", "ODMClassifier", _ODM),
    _of_strategies("svm-strategies", "SVMClassifier", _SVM),
    Part(
        name="estimators",
        title="Kernel machines, linear machines and boosted trees",
        about="Kernel machines have parameters that were chosen on the data, linear and boosted ones their defaults.",
        data=_DATA,
        quick_data=_QUICK,
        methods=_ESTIMATORS,
        parameters=_parameters,
        seeds=(0,),
        answer=is_boosting_better,
        tables=tuple(_compared("accuracy", "seconds", "prediction_seconds", to=_BOOSTING.name)),
        figures=(
            Figure("Accuracy", "rows", "accuracy", joined=True),
            Figure("Seconds of the fit", "rows", "seconds", joined=True),
        ),
    ),
    Part(
        name="libsvm",
        title="Beside LIBSVM",
        about="SVC has an intercept, and SVMClassifier none here. The largest sample of covtype is left out: on "
        "fewer rows of it, 100,000, LIBSVM took more than seven minutes (bench/targets).",
        data=_WITHOUT_LARGE,
        quick_data=_QUICK,
        methods=(_SVM[0], _LIBSVM),
        parameters=_parameters,
        seeds=(0,),
        tables=tuple(_compared("seconds", "accuracy", to=_SVM[0].name)),
        figures=(Figure("Seconds of the fit", "rows", "seconds", joined=True),),
    ),
)

EXPERIMENT = Experiment(
    name="choosing",
    title="Which estimator and which strategy",
    about="Data sets of the papers at three sizes each; docs/choosing.md says what follows.",
    source="",
    parts=_PARTS,
)
