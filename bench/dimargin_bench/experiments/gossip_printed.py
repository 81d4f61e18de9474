"""Methods of the GADGET paper's tables, with its parameters; what it does not print is ours, and said to be.

The functions that make them are found by the process of a cell by this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import ElasticNetCV, LassoCV, RidgeCV
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC

from dimargin.gossip.rounds import Quantised
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.gossip_published import DATA, number
from dimargin_bench.experiments.observed_sites import ObservedSites
from dimargin_bench.experiments.oversampled import Oversampled
from dimargin_bench.gossip_rivals import ChocoSGD, SetGossip, UniformGadget
from dimargin_bench.gossip_rivals.uniform_site import Form
from dimargin_bench.kernel_rivals import (
    DistEval,
    LocalADMM,
    Pegasos,
    PseudoDistributed,
    SVMPerf,
    ThresholdedRegression,
)

LAMBDA = 1e-2
"""Weight of the regulariser where sites run until they have converged: the paper does not print its own.

With 0.01 its rule ends runs within some thousand iterations; with 0.0001 it takes a hundred times as
many (part "rule").
"""
NETWORK = "the network, and all sites in one process"
N_SITES = round(number("Section 5.4", "sites k"))
EPSILON = number("Section 5.4", "epsilon")
N_QUIET = round(number("Section 5.5.1", "successive iterations"))
BATCHES: dict[str, int | None] = {
    "GD": None, "SGD": 1, "Mini-Batch (b=1000)": 1000, "Mini-Batch (b=100)": 100, "Mini-Batch (b=10)": 10,
}  # fmt: skip
"""The settings of Table 2, and the rows of a batch in each."""
_ITERATIONS, _FEW_ITERATIONS = 300, 30  # An iteration with the parameters of covertype takes seconds.
ADMM: dict[str, dict[str, Any]] = {
    data: {ours: number("Table 7", theirs, data=data)
           for ours, theirs in (("lam", "lambda"), ("rho", "rho"), ("over_relaxation", "alpha"))}
    | {"max_iter": _FEW_ITERATIONS if data == "covertype" else _ITERATIONS}
    for data in DATA if data != "real-sim"
}  # fmt: skip
"""The parameters of Table 7, with limits that are ours; for real-sim it has none, as ADMM did not end in a day."""
_CHOCO_DELAY = 100.0  # The theory of CHOCO-SGD has steps of 4 / (lambda (a + t)) for a large enough: a.

# ---- how they are made -----------------------------------------------------------------------------------------------


def observed(algorithm: Any, **parameters: Any) -> ObservedSites:
    """Make machines of the paper's ten sites, on a ring, until all have converged by its rule."""
    given: dict[str, Any] = {
        "alpha": LAMBDA, "fit_intercept": True, "n_sites": N_SITES, "epsilon": EPSILON, "n_quiet": (N_QUIET,),
    }  # fmt: skip
    return ObservedSites(algorithm=algorithm, **given | parameters)


def gadget(batch_size: int | None = 1, form: Form = "equation 5", projection: bool = False, **parameters: Any) -> Any:
    """Make sites that run GADGET in one of the paper's forms."""
    return observed(UniformGadget(batch_size, form=form, projection=projection), **parameters)


def pegasos(batch_size: int | None = 1, **parameters: Any) -> Pegasos:
    """Make Pegasos on all rows, which ends by the same rule."""
    given: dict[str, Any] = {
        "alpha": LAMBDA, "fit_intercept": True, "average": False, "epsilon": EPSILON, "n_quiet": N_QUIET
    }  # fmt: skip
    return Pegasos(batch_size=batch_size, **given | parameters)


def dist_eval(random_state: int, **rounds: Any) -> DistEval:
    """Make Dist-Eval: LIBSVM at each site, and a consensus filter on the labels that they predict."""
    beta = number("Section 5.5.2", "beta of Dist-Eval")
    return DistEval(SVC(), N_SITES, "ring", exchange="label", beta=beta, random_state=random_state)


def at_sites(estimator: Any, random_state: int, combine: str = "none", **rounds: Any) -> PseudoDistributed:
    """Make a machine of each site, trained on its rows alone."""
    return PseudoDistributed(estimator, N_SITES, combine=combine, random_state=random_state)


def all_rows(estimator: Any, random_state: int, **rounds: Any) -> Any:
    """Make a machine of all rows in one place."""
    seed = {"random_state": random_state} if "random_state" in estimator.get_params() else {}
    return clone(estimator).set_params(**seed)


def oversampled(make: Any, *given: Any, **parameters: Any) -> Oversampled:
    """Make a machine that is trained on as many rows of the rare class as of the other."""
    return Oversampled(make(*given, **parameters))


def admm_at_sites(random_state: int, **parameters: Any) -> PseudoDistributed:
    """Make ADMM at each site, with the parameters of a row of Table 7."""
    return at_sites(LocalADMM(fit_intercept=True, **parameters), random_state)


# ---- Tables 2 and 3 --------------------------------------------------------------------------------------------------


def _simulated(name: str, make: Any, about: str) -> Method:
    return Method(name, make, about, threads="one", simulated=NETWORK, ends_early=True)


def _apart(name: str, estimator: Any, about: str, combine: str = "none") -> Method:
    how = "accuracies averaged" if combine == "none" else "models averaged"
    make = partial(at_sites, estimator, combine=combine)
    return Method(name, make, f"{about}, at each site alone, {how}", threads="one", ends_early=True)


GADGET = _simulated("gadget", gadget, "GADGET by the paper's equation 5, the only one of the three printed steps that "
                    "is a step of Pegasos")  # fmt: skip
PEGASOS = Method(
    "pegasos", pegasos, "Pegasos on all rows in one place, the paper's Algorithm 2", "one", ends_early=True
)

_THRESHOLD = number("Section 5.5.2", "threshold of ASG") / 100
_BITS = round(number("Section 5.5.2", "b of CHOCO-SGD"))
ASG = _simulated(
    "asg-svm", partial(observed, SetGossip("ranked", _THRESHOLD), epsilon=None),
    f"sites that send, of the rows of each class that they hold, the {100 * _THRESHOLD:g}% nearest to the plane (our "
    "ranking), and at least one row, until no set changes",
)  # fmt: skip
DIST_EVAL = _simulated(
    "dist-eval", dist_eval, "LIBSVM's SVC with its defaults at each site, and for every query a consensus filter"
)
CHOCO = _simulated(
    "choco-sgd",
    partial(
        observed,
        ChocoSGD(Quantised(2 ** (_BITS - 1) - 1), 0.3, 4 / (LAMBDA * _CHOCO_DELAY), _CHOCO_DELAY, batch_size=1),
    ),
    f"CHOCO-SGD with one row a step, and QSGD with b={_BITS}, which we read as {_BITS} bits a number, one of them the "
    "sign; its steps and gamma are ours",
)

# ---- Table 4 ---------------------------------------------------------------------------------------------------------

_C = number("Table 4", "C", method="SVM-Perf")
_PERF = SVMPerf(alpha=1 / _C, fit_intercept=True)
_OUR_PERF = SVMPerf(alpha=LAMBDA, fit_intercept=True)
_ABOUT_PERF = f"SVM-Perf with the paper's C = {_C:g}, which in our reading multiplies the mean of the losses"
_LIBLINEAR = LinearSVC(loss="hinge", max_iter=20_000)
TABLE_4 = (
    _apart("svm-perf", _PERF, _ABOUT_PERF),
    _apart("liblinear", _LIBLINEAR, "LIBLINEAR's dual solver for the hinge loss with its default C = 1, as none is "
           "printed"),
    _apart("libsvm", SVC(kernel="linear"), "LIBSVM's C-SVC with a linear kernel and C = 1, as neither is printed"),
    Method("dist-admm", admm_at_sites, "ADMM with the parameters of Table 7, at each site alone, accuracies averaged",
           "one", ends_early=True),
)  # fmt: skip
TABLE_4_OURS = (
    _apart("svm-perf, ours", _OUR_PERF, f"SVM-Perf with the regulariser of GADGET, {LAMBDA:g}"),
    _apart("liblinear, averaged", _LIBLINEAR, "LIBLINEAR with C = 1", "average"),
    Method("liblinear, all rows", partial(all_rows, _LIBLINEAR), "LIBLINEAR with C = 1 on all rows in one place", "one",
           ends_early=True),
)  # fmt: skip

# ---- Tables 5 and 6 --------------------------------------------------------------------------------------------------

_ALPHA = number("Section 5.5.4", "alpha of glmnet")
_CHOSEN = "thresholded least squares with {}, whose weight five-fold cross-validation chooses, as none is printed"
TABLE_5 = (
    _apart("lasso", ThresholdedRegression(LassoCV()), _CHOSEN.format("the lasso")),
    _apart("ridge", ThresholdedRegression(RidgeCV([10.0**k for k in range(-3, 6)])), _CHOSEN.format("ridge")),
    _apart("elastic net", ThresholdedRegression(ElasticNetCV(l1_ratio=_ALPHA)),
           _CHOSEN.format(f"an elastic net of alpha = {_ALPHA:g}")),
)  # fmt: skip
_TREES, _NEURONS, _RATE = (
    number("Section 5.5.4", name) for name in ("trees of the forest", "neurons of the MLP", "learning rate of the MLP")
)
_MLP = MLPClassifier((round(_NEURONS),), "logistic", solver="sgd", learning_rate="invscaling", learning_rate_init=_RATE)
TABLE_6 = (
    _apart("random forest", RandomForestClassifier(round(_TREES)), f"{_TREES:g} random trees"),
    _apart("boosting", AdaBoostClassifier(), "AdaBoost of 50 stumps without resampling; their number is not printed"),
    _apart(
        "mlp", _MLP, f"a multilayer perceptron of one hidden layer of {_NEURONS:g} sigmoids, rate {_RATE:g} with decay"
    ),
)
TABLE_6_OURS = (
    _apart("boosting, ours", HistGradientBoostingClassifier(), "boosted trees of scikit-learn"),
    _apart(
        "mlp, ours",
        MLPClassifier((round(_NEURONS),)),
        f"a multilayer perceptron of {_NEURONS:g} rectified units, trained by Adam",
    ),
)

# ---- section 6 -------------------------------------------------------------------------------------------------------

QUIETS = (4, 8, 10)
ITERATIONS = round(number("Section 6", "iterations", data="bosch"))
N_QUIET_OF_THE_LINE = round(number("Section 6", "successive iterations", method="GADGET", setting=""))
_REPEATED = "on rows of which those of the rare class are repeated until both classes have as many"


def _on_the_line(about: str, **rule: Any) -> tuple[Method, ...]:
    """Return GADGET on the rows as they are, and on oversampled ones."""
    plain, repeated = partial(gadget, **rule), partial(oversampled, gadget, **rule)
    return (_simulated("gadget", plain, f"GADGET by equation 5 {about}"),
            _simulated("gadget, oversampled", repeated, f"GADGET by equation 5 {about}, {_REPEATED}"))  # fmt: skip


PRODUCTION = _on_the_line(
    f"for all {ITERATIONS:,} iterations, whose sites note when 4, 8 or 10 in a row were quiet",
    n_quiet=QUIETS, runs_on=True,
)  # fmt: skip
SOLVERS = (
    *_on_the_line(f"until all sites have had {N_QUIET_OF_THE_LINE} quiet iterations in a row",
                  n_quiet=(N_QUIET_OF_THE_LINE,)),
    Method("svm-perf", partial(all_rows, _PERF), f"{_ABOUT_PERF}, on all rows in one place", "one"),
    Method("liblinear", partial(all_rows, _LIBLINEAR), "LIBLINEAR with C = 1 on all rows in one place", "one",
           ends_early=True),
    Method("liblinear, oversampled", partial(oversampled, all_rows, _LIBLINEAR),
           f"LIBLINEAR with C = 1 on all rows in one place, {_REPEATED}", "one", ends_early=True),
)  # fmt: skip

# ---- the printed forms and the rule, which are ours ------------------------------------------------------------------

_FORMS: dict[Form, str] = {
    "algorithm 3": "GADGET with the step as Algorithm 3 prints it: every row that is drawn pulls, whatever its margin",
    "equation 4": "GADGET with the step as equation 4 prints it: the pull has the sign of the gradient, the wrong one",
    "equation 5": "GADGET with the step as equation 5 prints it: rows of margin below one pull, which mends line (c) "
    "of Algorithm 3 only",
    "mended": "GADGET mended beyond its step: sites count by their rows, keep their mass and limit their steps by it; "
    "messages carry running sums and are acknowledged; weights are the last ones, without an average of iterates",
}
FORMS = tuple(
    _simulated(f"gadget, {form}", partial(gadget, form=form, epsilon=None), about) for form, about in _FORMS.items()
)
RULE: Mapping[str, Mapping[str, Any]] = {
    f"{'projected' if projection else 'not projected'}, by the {reading}, lambda = {alpha:g}": {
        "projection": projection, "reading": reading, "alpha": alpha
    }
    for alpha in (LAMBDA, 1e-4) for reading in ("norm", "weights") for projection in (False, True)
}  # fmt: skip
