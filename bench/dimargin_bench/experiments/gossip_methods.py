"""Methods of the parts on gossip that are ours, made by functions that the process of a cell finds by module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dimargin.estimators import GossipSVMClassifier
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.gossip.rounds import (
    ClippedMean,
    ConsensusADMM,
    Logarithmic,
    Mean,
    NearestMixing,
    Quantised,
    RobustGossip,
    TopK,
    TrimmedMean,
)
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.examine_sites import ALPHA
from dimargin_bench.experiments.gossip_printed import N_SITES, NETWORK
from dimargin_bench.experiments.observed_sites import ObservedSites
from dimargin_bench.gossip_rivals import (
    ChocoSGD,
    FederatedAveraging,
    GossipLearning,
    MoMDSVM,
    SetGossip,
    UniformGadget,
    decentralised_sgd,
)
from dimargin_bench.gossip_rivals.attacks import InnerProduct, LabelFlip, LittleIsEnough, SignFlip
from dimargin_bench.gossip_rivals.liars import lying
from dimargin_bench.gossip_rivals.row_selection import Rule
from dimargin_bench.kernel_rivals import DistEval, Pegasos, PseudoDistributed, SVMPerf

LIARS = ("site2", "site7")
_NEVER = 1e-12  # a tolerance that ends no run before its rounds


class Liblinear(LinearSVC):
    """scikit-learn's LinearSVC with the hinge and the C of the comparison's alpha, whatever the number of rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Liblinear:
        """Fit with ``C = 1 / (alpha n)``."""
        self.set_params(C=1 / (ALPHA * X.shape[0]), loss="hinge", max_iter=20_000)
        fitted: Liblinear = super().fit(X, y, sample_weight)
        return fitted


# ---- how they are made -----------------------------------------------------------------------------------------------


def gossip(algorithm: Any = "gadget", **parameters: Any) -> GossipSVMClassifier:
    """Make a machine that ten sites learn by an algorithm, on a ring unless `parameters` have another topology."""
    given: dict[str, Any] = {
        "topology": "ring",
        "alpha": ALPHA,
        "fit_intercept": True,
        "n_sites": N_SITES,
        "tol": _NEVER,
    } | parameters
    return GossipSVMClassifier(algorithm, share_rows=isinstance(algorithm, SetGossip), **given)


def attacked(algorithm: Any, attack: Any, **parameters: Any) -> GossipSVMClassifier:
    """Make the machine of an algorithm in which two of ten sites lie, if there is an attack."""
    return gossip(algorithm if attack is None else lying(algorithm, dict.fromkeys(LIARS, attack)), **parameters)


def alone(estimator: Any, random_state: int, shards: str = "", **rounds: Any) -> Any:
    """Make a machine of all rows in one place, which knows no rounds nor sites."""
    seed = {"random_state": random_state} if "random_state" in estimator.get_params() else {}
    return clone(estimator).set_params(**seed)


def at_sites(estimator: Any, random_state: int, shards: str = "random", **rounds: Any) -> PseudoDistributed:
    """Make machines that every site trains on its own rows, whose models are averaged."""
    return PseudoDistributed(estimator, n_sites=N_SITES, shards=shards, random_state=random_state)


def filtered(random_state: int, shards: str = "random", **rounds: Any) -> DistEval:
    """Make Dist-Eval with LIBLINEAR at each site, on a ring."""
    return DistEval(Liblinear(), n_sites=N_SITES, topology="ring", shards=shards, random_state=random_state)


def federated(**parameters: Any) -> FederatedAveraging:
    """Make a machine of ten sites that a server averages."""
    return FederatedAveraging(alpha=ALPHA, fit_intercept=True, n_sites=N_SITES, **parameters)


def _sites(name: str, algorithm: Any, about: str, **parameters: Any) -> Method:
    make = partial(gossip, algorithm, **parameters)
    return Method(name, make, about, threads="one", simulated=NETWORK, ends_early=True)


# ---- gossip, with the parameters that the part "tuning" finds best ---------------------------------------------------

TRACKED = _sites("tracked", "gadget", "dimargin's default: the gradient of all rows, tracked by Push-Sum")
QUANTISED = _sites(
    "tracked, quantised", "gadget", "dimargin's default, whose messages are differences in a byte or less a number",
    compression="quantised",
)  # fmt: skip
ADMM_LEVELS, LOCAL, UNIFORM, DSGD, CHOCO_TOP, CHOCO_QUANTISED, WALKS, ADMM, MOM = (
    "admm, logarithmic", "gadget, all neighbours", "gadget, mended", "d-sgd", "choco, top 10%", "choco, quantised",
    "gossip learning", "admm", "mom-dsvm",
)  # fmt: skip
ADMM_SITES, FEDAVG, FEDPROX = "admm, as sites run it", "fedavg", "fedprox"
_ABOUT = {
    ADMM_LEVELS: "consensus ADMM that sends changes of the solutions on logarithmic levels, four bits a number",
    LOCAL: "GADGET with steps along each site's own gradient, and Push-Sum to all neighbours",
    UNIFORM: "GADGET mended, with half of the mass (our choice) to one random neighbour, as in the paper, and averaged "
    "iterates",
    DSGD: "decentralised gradient descent, without compression",
    CHOCO_TOP: "CHOCO-SGD, which sends a tenth of the numbers",
    CHOCO_QUANTISED: "CHOCO-SGD, which sends four bits a number",
    WALKS: "models that walk at random, merge and are updated",
    ADMM: "consensus ADMM between neighbours",
    MOM: "the method of multipliers of MoM-DSVM",
    ADMM_SITES: "consensus ADMM on logarithmic levels with the defaults of `dimargin site`: it computes certificates, "
    "and adapts its penalty by them",
    FEDAVG: "FedAvg: a server averages what sites learn in several passes over their rows; four bytes a number",
    FEDPROX: "FedProx: FedAvg whose sites stay near the server's weights; four bytes a number",
}


def _averaged(name: str, point: str = "", **parameters: Any) -> Method:
    """Return FedAvg or FedProx, or a point of its grid."""
    make = partial(federated, **parameters)
    if point:
        return _point(name, point, make)
    return Method(name, make, _ABOUT[name], threads="one", simulated=NETWORK, ends_early=True)


def _tuned(
    local: Mapping[str, Any], fedavg: Mapping[str, Any], fedprox: Mapping[str, Any], **algorithms: Any
) -> tuple[Method, ...]:
    """Return our methods and their rivals, with the parameters of plain GADGET and of those with a server."""
    plain = _sites(LOCAL, "gadget", _ABOUT[LOCAL], gradient="local", step_size="pegasos", **local)
    names = dict(zip(algorithms, (UNIFORM, DSGD, CHOCO_TOP, CHOCO_QUANTISED, WALKS, ADMM, MOM), strict=True))
    others = (_sites(name, algorithms[key], _ABOUT[name], average=name == UNIFORM) for key, name in names.items())
    levels = _sites(ADMM_LEVELS, replace(algorithms["admm"], compression=Logarithmic()), _ABOUT[ADMM_LEVELS])
    untuned = _sites(ADMM_SITES, ConsensusADMM(compression=Logarithmic()), _ABOUT[ADMM_SITES])
    served = _averaged(FEDAVG, **fedavg), _averaged(FEDPROX, **fedprox)
    return TRACKED, QUANTISED, levels, untuned, plain, *others, *served


AT_RANDOM = _tuned(
    {"batch_size": 100, "gossip_rounds": 1, "projection": True, "average": True},
    {"epochs": 5, "batch_size": 100, "step_size": 3.0, "decay": 30.0},
    {"epochs": 5, "batch_size": 100, "step_size": 3.0, "decay": 30.0, "mu": 0.01},
    uniform=UniformGadget(batch_size=None, gossip_rounds=1, projection=True),
    dsgd=decentralised_sgd(step_size=1.0, decay=300.0),
    choco_top=ChocoSGD(TopK(0.1), gamma=0.3, step_size=3.0, decay=100.0),
    choco_quantised=ChocoSGD(Quantised(7), gamma=0.9, step_size=1.0, decay=300.0),
    walks=GossipLearning("um", batch_size=100),
    admm=ConsensusADMM(rho=0.03, over_relaxation=1.6),
    mom=MoMDSVM(eta=0.015),
)
SORTED = _tuned(
    {"batch_size": 1, "gossip_rounds": 4, "projection": True},
    {"epochs": 1, "step_size": 3.0, "decay": 100.0},
    {"epochs": 5, "step_size": 10.0, "decay": 30.0, "mu": 0.1},
    uniform=UniformGadget(batch_size=1, gossip_rounds=4, projection=True),
    dsgd=decentralised_sgd(step_size=0.3, decay=100.0),
    choco_top=ChocoSGD(TopK(0.1), gamma=0.3, step_size=0.3, decay=100.0),
    choco_quantised=ChocoSGD(Quantised(7), gamma=0.9, step_size=0.3, decay=100.0),
    walks=GossipLearning("mu", batch_size=100),
    admm=ConsensusADMM(rho=0.1, over_relaxation=1.6),
    mom=MoMDSVM(eta=0.05),
)

# ---- kernels ---------------------------------------------------------------------------------------------------------


def on_features(make: Any, gamma: float, random_state: int, **parameters: Any) -> Any:
    """Make a machine on 200 random Fourier features, equal at all sites."""
    features = FourierFeatures(gamma=gamma, n_components=100, random_state=0)
    return make_pipeline(features, make(random_state=random_state, **parameters))


def _of_kernel(name: str, make: Any) -> Method:
    of_features = partial(on_features, make)
    return Method(name, of_features, _ABOUT[name], threads="one", simulated=NETWORK, ends_early=True)


_KERNEL_STEPS = {"epochs": 5, "batch_size": 100, "step_size": 10.0, "decay": 30.0}
KERNEL = (
    _of_kernel(ADMM_LEVELS, partial(gossip, ConsensusADMM(rho=0.01, compression=Logarithmic()))),
    _of_kernel(ADMM_SITES, partial(gossip, ConsensusADMM(compression=Logarithmic()))),
    _of_kernel(FEDAVG, partial(federated, **_KERNEL_STEPS)),
    _of_kernel(FEDPROX, partial(federated, mu=0.01, **_KERNEL_STEPS)),
)

# ---- other ways to learn apart ---------------------------------------------------------------------------------------

_SETS: tuple[tuple[str, Rule, float, str], ...] = (
    ("msg-svm", "support", 1.0, "their support vectors"),
    ("asg-svm, 3%", "ranked", 0.03, "of each class the 3% nearest to the plane, the GADGET paper's largest threshold"),
)
SETS = tuple(_sites(name, SetGossip(rule, share), f"sites that send rows, {what}") for name, rule, share, what in _SETS)
DIST_EVAL = Method(
    "dist-eval, values", filtered, "LIBLINEAR at each site alone, and a consensus filter on the values of every query",
    simulated=NETWORK, threads="one", ends_early=True,
)  # fmt: skip


def voting(random_state: int, shards: str = "random", **rounds: Any) -> ObservedSites:
    """Make gossip learning whose sites predict by a vote of the last ten models that they have made."""
    return ObservedSites(algorithm=GossipLearning("um", batch_size=100), alpha=ALPHA, fit_intercept=True, epsilon=None,
                         vote=True, shards=shards, random_state=random_state, **rounds)  # fmt: skip


VOTE = Method("gossip learning, vote", voting, f"{_ABOUT[WALKS]}; a site's last ten of them vote", "one",
              simulated=NETWORK, ends_early=True)  # fmt: skip
_LINEAR = (
    ("liblinear", Liblinear(), "LIBLINEAR"),
    ("svm-perf", SVMPerf(alpha=ALPHA, fit_intercept=True), "cutting planes"),
    ("pegasos", Pegasos(alpha=ALPHA, fit_intercept=True, batch_size=100), "Pegasos"),
)
SEPARATE = tuple(
    Method(f"{name}, averaged", partial(at_sites, estimator), f"{what} at each site alone, models averaged", "one")
    for name, estimator, what in _LINEAR
)
CENTRAL = tuple(
    Method(name, partial(alone, estimator), f"{what} with all rows in one place", "one", ends_early=True)
    for name, estimator, what in _LINEAR
)

# ---- grids -----------------------------------------------------------------------------------------------------------


def _tried(line: str, kind: Any, grid: Mapping[str, Mapping[str, Any]]) -> tuple[Method, ...]:
    """Return a method for each point of a grid of an algorithm's parameters."""
    return tuple(_point(line, point, partial(gossip, kind(**of))) for point, of in grid.items())


def _point(line: str, point: str, make: Any) -> Method:
    about = f"{line} with {point}"
    return Method(f"{line}, {point}", make, about, threads="one", simulated=NETWORK, line=line, ends_early=True)


_SIZES = {"1 row": 1, "100 rows": 100, "all rows": None}
_GADGET_GRID: dict[str, dict[str, Any]] = {
    f"{batch}, B={rounds}{', projected' if projection else ''}": {
        "batch_size": size, "gossip_rounds": rounds, "projection": projection
    }
    for batch, size in _SIZES.items() for rounds in (1, 4) for projection in (False, True)
}  # fmt: skip
_ITERATES: dict[str, dict[str, Any]] = {"": {}, ", averaged": {"average": True}}
_STEP_GRID = {
    f"eta={step:g}, decay={decay:g}": {"step_size": step, "decay": decay}
    for step in (0.3, 1.0, 3.0) for decay in (100.0, 300.0)
}  # fmt: skip
_CHOCO_GRID = {
    f"gamma={gamma:g}, {point}": {"gamma": gamma, **of} for gamma in (0.1, 0.3, 0.9) for point, of in _STEP_GRID.items()
}
_WALKS_GRID = {
    f"{variant}, {batch}": {"variant": variant, "batch_size": size}
    for variant in ("mu", "um", "rw") for batch, size in {"1 row": 1, "100 rows": 100}.items()
}  # fmt: skip
_ADMM_GRID = {
    f"rho={rho:g}, a={relaxation:g}": {"rho": rho, "over_relaxation": relaxation}
    for rho in (0.01, 0.03, 0.1, 0.3, 1.0) for relaxation in (1.0, 1.6)
}  # fmt: skip
_EPOCHS: dict[str, dict[str, Any]] = {
    "1 step": {"epochs": 1}, "5 steps": {"epochs": 5}, "1 epoch": {"epochs": 1, "batch_size": 100},
    "5 epochs": {"epochs": 5, "batch_size": 100}, "20 epochs": {"epochs": 20, "batch_size": 100},
}  # fmt: skip
_FEDERATED_STEPS = {
    f"eta={step:g}, decay={decay:g}": {"step_size": step, "decay": decay}
    for step in (0.3, 1.0, 3.0, 10.0) for decay in (30.0, 100.0, 300.0)
}  # fmt: skip
_FEDAVG_GRID: dict[str, dict[str, Any]] = {
    f"{epochs}, {point}": {**how, **of} for epochs, how in _EPOCHS.items() for point, of in _FEDERATED_STEPS.items()
}  # fmt: skip
_FEDPROX_GRID: dict[str, dict[str, Any]] = {
    f"mu={mu:g}, exact": {"mu": mu, "epochs": None} for mu in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
} | {
    f"mu={mu:g}, {epochs}, {point}": {"mu": mu, **_EPOCHS[epochs], **of}
    for mu, epochs in ((0.01, "5 epochs"), (0.1, "5 epochs"), (0.1, "5 steps"), (1.0, "5 steps"))
    for point, of in _FEDERATED_STEPS.items()
}  # fmt: skip
_MOM_GRID = {f"eta={eta:g}": {"eta": eta} for eta in (0.005, 0.015, 0.05, 0.15, 0.5)}
GRID = (
    *(_point(LOCAL, f"{point}{said}", partial(gossip, "gadget", gradient="local", step_size="pegasos", **of, **way))
      for said, way in _ITERATES.items() for point, of in _GADGET_GRID.items()),
    *(_point(UNIFORM, f"{point}{said}", partial(gossip, UniformGadget(**of), **way))
      for said, way in _ITERATES.items() for point, of in _GADGET_GRID.items()),
    *_tried(DSGD, decentralised_sgd, _STEP_GRID),
    *_tried(CHOCO_TOP, partial(ChocoSGD, TopK(0.1)), _CHOCO_GRID),
    *_tried(CHOCO_QUANTISED, partial(ChocoSGD, Quantised(7)), _CHOCO_GRID),
    *_tried(WALKS, GossipLearning, _WALKS_GRID),
    *_tried(ADMM, ConsensusADMM, _ADMM_GRID),
    *_tried(MOM, MoMDSVM, _MOM_GRID),
    *(_averaged(FEDAVG, point, **of) for point, of in _FEDAVG_GRID.items()),
    *(_averaged(FEDPROX, point, **of) for point, of in _FEDPROX_GRID.items()),
)  # fmt: skip

# ---- liars -----------------------------------------------------------------------------------------------------------

ATTACKS = {
    "nobody lies": None, "sign flip": SignFlip(), "a little": LittleIsEnough(), "inner product": InnerProduct(),
    "label flip": LabelFlip(),
}  # fmt: skip
MERGES = {
    "mean": RobustGossip(Mean()), "trimmed": RobustGossip(TrimmedMean(2)), "clipped": RobustGossip(ClippedMean(2)),
    "nearest, trimmed": RobustGossip(NearestMixing(2)),
    "nearest, trimmed; tracked": RobustGossip(NearestMixing(2), gradient="tracked"),
}  # fmt: skip


def merged(merge: str, attack: str, **parameters: Any) -> GossipSVMClassifier:
    """Make the machine of sites on a complete graph that merge by a rule, while two lie by an attack."""
    return attacked(MERGES[merge], ATTACKS[attack], topology="complete", **parameters)


_ABOUT_MERGES = (
    "the mean", "the mean of every coordinate without its two largest and two smallest values",
    "a mean in which far vectors are clipped",
    "the trimmed mean of vectors each of which is first replaced by the mean of those nearest to it",
    'the rule "nearest, trimmed", along estimates of the gradient of all rows',
)  # fmt: skip
ROBUST = tuple(
    Method(name, partial(merged, name), f"decentralised gradient descent, merged by {about}", threads="one",
           simulated=NETWORK, ends_early=True)
    for name, about in zip(MERGES, _ABOUT_MERGES, strict=True)
)  # fmt: skip
