"""Methods of the core-set experiment, made by functions that the process of a cell finds by their module."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline

from dimargin.estimators import CoreSetSVMClassifier, GossipSVMClassifier, minimum_enclosing_ball
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.gossip.rounds import ConsensusADMM, Quantised
from dimargin.system.arrays import Floats
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.gossip_rivals import ChocoSGD, SetGossip

RADII, NORMS = "squared_radius", "centre_norm"
"""Traces of a run: the paper's Figures 1 and 2."""

_EDGES = 0.01  # probability of an edge
QUIET, MORE_QUIET = 15, 40  # A node stops after so many rounds without a change; more in bad weather, as news are late.
MAX_ROUNDS = 400
N_SITES = 10
_SHARED: dict[str, Any] = {"n_sites": N_SITES, "topology": "ring", "shards": "sorted"}
_CUTS = (4, 8, 16)  # rounds after which sites that agree on a core-set may be asked for their model
_ROUNDS = (30, 100, 300, 1000)  # of gossip
_NETWORK = "the network"


class Ball(BaseEstimator):
    """Base of balls around points: a point is predicted to be inside, which is 1, or outside, 0.

    Points are inside within ``1 + epsilon`` times the radius of the smallest ball, the rounding of
    both aside.
    """

    def __init__(self, epsilon: float = 0.1, random_state: int = 0) -> None:
        self.epsilon, self.random_state = epsilon, random_state

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return ones for points within `epsilon` of the ball, zeros for others."""
        distances = np.linalg.norm(X - self.centre_, axis=1)
        inside: NDArray[np.int64] = (distances <= (1 + self.epsilon) * self.radius_ * (1 + 1e-9)).astype(np.int64)
        return inside

    def _found(self, X: Any, centre: Floats, squared_radius: float) -> None:
        """Keep a ball, and its metrics beside those of the smallest one."""
        self.centre_, self.radius_ = centre, minimum_enclosing_ball(X, 0).radius
        reach = float(np.linalg.norm(X - centre, axis=1).max())
        self.metrics_ = {"squared_radius": squared_radius, "radius_ratio": math.sqrt(squared_radius) / self.radius_,
                         "reach_ratio": reach / self.radius_, "own_reach_ratio": reach / math.sqrt(squared_radius),
                         "centre_norm": float(np.linalg.norm(centre))}  # fmt: skip


class SmallestBall(Ball):
    """The smallest ball around all points, in one place."""

    def fit(self, X: Any, y: Any) -> Self:
        """Find it."""
        best = minimum_enclosing_ball(X, 0)
        assert best.center is not None  # the kernel is linear
        self._found(X, best.center, best.radius**2)
        self.support_ = best.core_set_indices
        return self


class ConsensusBall(Ball):
    """The ball on which nodes agree, on a random digraph that is drawn again in every round: Algorithm 1 of the paper.

    Every node has `n_points` points, one as in section II, or several as in Remark IV.2. Messages
    are lost with probability `loss`; with one above zero nodes do not keep step, a message takes up
    to a second, and of those that arrive a fifth arrive twice. The digraph changes every second,
    which is a round of nodes in step. What the paper leaves open is on the experiment's page.
    """

    def __init__(self, epsilon: float = 0.1, loss: float = 0.0, n_points: int = 1, random_state: int = 0) -> None:
        super().__init__(epsilon, random_state)
        self.loss, self.n_points = loss, n_points

    def fit(self, X: Any, y: Any) -> Self:
        """Let the nodes agree, and keep squared radius and norm of the centre of every node in every round."""
        from dimargin.gossip.simulation.conditions import Conditions
        from dimargin.gossip.simulation.core_set_run import CoreSetRun
        from dimargin.gossip.topology import changing_digraphs
        from dimargin_bench.experiments.printed_core_set import PrintedSettings

        n, n_nodes, is_lossy = len(X), len(X) // self.n_points, self.loss > 0
        quiet = MORE_QUIET if is_lossy else QUIET
        settings = PrintedSettings(epsilon=self.epsilon, size=math.ceil(1 / self.epsilon), quiet_rounds=quiet)
        conditions = Conditions.asynchronous(self.loss, duplication=0.2) if is_lossy else Conditions()
        graph, nodes = changing_digraphs(n_nodes, _EDGES, self.random_state), np.arange(n) % n_nodes
        run = CoreSetRun(X, np.ones(n), nodes, n_nodes, settings, graph, conditions, self.random_state)
        rounds: list[int] = []
        radii: list[list[float]] = []
        norms: list[list[float]] = []

        def watch(entry: dict[str, Any]) -> bool:
            chosen = [program.chosen for program in run.programs]
            entry["digraph"] = math.floor(run.simulator.now)
            if all(one is not None for one in chosen):
                rounds.append(entry["digraph"])
                radii.append([max(one.value, 0.0) for one in chosen])
                norms.append([float(np.linalg.norm(one.weights @ one.points.X)) for one in chosen])
            return False

        run.run(MAX_ROUNDS, watch=watch)
        best = run.best
        self._found(X, best.weights @ best.points.X, max(best.value, 0.0))
        self.metrics_ |= {"rows_shared": run.rows_shared, **_until_agreement(run.history)}
        self.support_, self.history_ = run.indices(best)[best.weights > 0], run.history
        smallest = self.radius_**2
        self.traces_ = {
            RADII: {"x": rounds, "lines": _lines(radii), "level": smallest},
            NORMS: {"x": rounds, "lines": _lines(norms), "level": float(np.linalg.norm(self.centre_))},
        }
        return self


def _until_agreement(history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how many core-sets there are at the end, and what it took until there was one, if there is.

    If there is not, messages and bytes are those of the whole run.
    """
    apart = [k for k, entry in enumerate(history) if entry["core_sets"] > 1]
    first = history[min(apart[-1] + 1 if apart else 0, len(history) - 1)]
    found = {"core_sets": history[-1]["core_sets"], "messages": first["messages"], "bytes": first["bytes"]}
    return found | ({"rounds": first["digraph"]} if found["core_sets"] == 1 else {})


def _lines(values: list[list[float]]) -> list[list[float]]:
    """Return a line for every node of the values of all nodes in every round, to six digits."""
    return [[float(f"{value:.6g}") for value in line] for line in zip(*values, strict=True)]


def core_set(kernel: str, random_state: int, max_iter: int = 2000, **parameters: Any) -> CoreSetSVMClassifier:
    """Make a core-set machine of sites, whose gap alone ends it where they do not have `max_iter` rounds only."""
    return CoreSetSVMClassifier(kernel=kernel, max_iter=max_iter, random_state=random_state, **_SHARED, **parameters)


def gadget(random_state: int, max_iter: int, **parameters: Any) -> GossipSVMClassifier:
    """Make GADGET of sites, which ends after so many rounds, if not before; with an intercept, as core-sets have."""
    shared = {**_SHARED, "fit_intercept": True}
    return GossipSVMClassifier(max_iter=max_iter, random_state=random_state, **shared, **parameters)


def msg_svm(random_state: int, max_iter: int, **parameters: Any) -> GossipSVMClassifier:
    """Make a machine of sites that send support vectors."""
    return gadget(random_state, max_iter, algorithm=SetGossip(), share_rows=True, **parameters)


def admm(
    random_state: int, max_iter: int, rho: float, over_relaxation: float, **parameters: Any
) -> GossipSVMClassifier:
    """Make a machine of sites that agree by consensus ADMM."""
    algorithm = ConsensusADMM(rho=rho, over_relaxation=over_relaxation)
    return gadget(random_state, max_iter, algorithm=algorithm, **parameters)


def choco(
    random_state: int, max_iter: int, consensus: float, step_size: float, decay: float, **parameters: Any
) -> GossipSVMClassifier:
    """Make a machine of sites that learn by CHOCO-SGD with four bits a number; `consensus` is its gamma."""
    algorithm = ChocoSGD(Quantised(7), gamma=consensus, step_size=step_size, decay=decay)
    return gadget(random_state, max_iter, algorithm=algorithm, **parameters)


def kernel_gadget(
    random_state: int, max_iter: int, gamma: float, n_components: int = 250, **parameters: Any
) -> Pipeline:
    """Make GADGET on random Fourier features, which no row leaves either: `n_components` pairs of a shared seed."""
    return make_pipeline(FourierFeatures(gamma, n_components), gadget(random_state, max_iter, **parameters))


SMALLEST = Method("smallest ball", SmallestBall, "of all points, in one place")
CONSENSUS = Method("consensus", ConsensusBall, "core-set consensus, nodes in step, nothing lost", simulated=_NETWORK)
LOSSY = Method("consensus, bad weather", partial(ConsensusBall, loss=0.3),
               "core-set consensus, nodes out of step; a message takes up to a second, 30% are lost, 20% of the others "
               "arrive twice", simulated=_NETWORK)  # fmt: skip


def _machines(kernel: str) -> tuple[Method, ...]:
    name, about = f"core-set, {kernel}", f"core-set consensus, {kernel} kernel"
    own: dict[str, Any] = {"problem": f"L2, {kernel}", "simulated": _NETWORK, "line": name}
    return (
        *(Method(f"{name}, {cut} rounds", partial(core_set, kernel, max_iter=cut),
                 f"{about}: the model of the site whose core-set has the largest dual objective after {cut} rounds",
                 ends_early=True, **own) for cut in _CUTS),
        Method(f"{name}, agreed", partial(core_set, kernel), f"{about}: the model that all sites have", **own),
        Method(f"{name}, one place", partial(CoreSetSVMClassifier, kernel=kernel),
               f"the machine of all rows together, {kernel} kernel", problem=f"L2, {kernel}"),
    )  # fmt: skip


GADGET = tuple(
    Method(f"GADGET, {rounds} rounds", partial(gadget, max_iter=rounds),
           f"GADGET with tracked gradients, linear: {rounds} rounds",
           simulated=_NETWORK, problem="hinge", line="GADGET", ends_early=True)
    for rounds in _ROUNDS
)  # fmt: skip
KERNEL_GADGET = tuple(
    Method(f"kernel GADGET, {rounds} rounds", partial(kernel_gadget, max_iter=rounds),
           f"GADGET with tracked gradients, on 500 random Fourier features of the rbf kernel: {rounds} rounds",
           simulated=_NETWORK, problem="hinge, rbf", line="kernel GADGET", ends_early=True)
    for rounds in _ROUNDS[:3]
)  # fmt: skip
CORE_SETS = tuple(method for kernel in ("linear", "rbf") for method in _machines(kernel))


_RIVALS: dict[str, tuple[Any, str]] = {
    "admm": (admm, "consensus ADMM"),
    "choco": (choco, "CHOCO-SGD, four bits a number"),
    "msg-svm": (msg_svm, "gossip of support vectors, which leave their sites"),
}
RIVALS = tuple(
    Method(f"{name}, {rounds} rounds", partial(make, max_iter=rounds), f"{what}: {rounds} rounds",
           simulated=_NETWORK, problem="hinge", line=name, ends_early=True)
    for name, (make, what) in _RIVALS.items()
    for rounds in _ROUNDS
)  # fmt: skip

# ---- steps and penalties ---------------------------------------------------------------------------------------------

TUNED: Mapping[str, Mapping[str, Mapping[str, float]]] = tomllib.loads(
    Path(__file__).with_name("coreset_tuned.toml").read_text(encoding="utf-8")
)
"""Parameters of the rivals by data set, of the part "tuning", and "other" for files of the user's."""


def tuned(data: str, line: str) -> Mapping[str, float]:
    """Return the parameters of a rival on a data set; none of those that have none."""
    return TUNED.get(data, TUNED["other"]).get(line, {})


def _grid(line: str, **values: tuple[float, ...]) -> tuple[Method, ...]:
    """Return a method for each point of a grid, after 300 rounds."""
    make, _ = _RIVALS[line]
    points = (dict(zip(values, point, strict=True)) for point in product(*values.values()))
    return tuple(_point(line, make, point) for point in points)


def _point(line: str, make: Any, point: Mapping[str, float]) -> Method:
    words = ", ".join(f"{name}={value:g}" for name, value in point.items())
    return Method(f"{line}, {words}", partial(make, max_iter=300, **point), f"{line} with {words}: 300 rounds",
                  simulated=_NETWORK, problem="hinge", line=line, ends_early=True)  # fmt: skip


GRID = (
    *_grid("admm", rho=(0.01, 0.03, 0.1, 0.3, 1.0), over_relaxation=(1.0, 1.6)),
    *_grid(
        "choco", consensus=(0.3, 0.9), step_size=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0), decay=(100.0, 300.0, 1000.0)
    ),
)
