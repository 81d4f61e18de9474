"""A loss, a kernel, a partition, a strategy and a site program of somebody else, added as CONTRIBUTING.md says."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.svm import SVC

import dimargin as dm
from dimargin import estimators, strategies
from dimargin.problems.losses import Loss, PiecewiseConjugate
from dimargin.shards.partition import Partition
from dimargin.strategies import DiODM

X, Y = make_moons(400, noise=0.2, random_state=0)
SIGNS = np.where(Y == 1, 1.0, -1.0)


# ---- a loss ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared distance of a margin from one."""

    C: float
    selection = "permutation"

    def value(self, margins, weights, mass, total):
        return self.C * total / mass * weights * (1 - margins) ** 2

    def conjugate(self, weights, mass, total):
        slope, curvature = np.full_like(weights, -1.0), mass / (2 * self.C * total * weights)
        infinite = np.full_like(weights, np.inf)
        return PiecewiseConjugate(slope, curvature, slope, curvature, -infinite, infinite)


class LeastSquaresClassifier(dm.SVMClassifier):
    """Machine of that loss, with the parameters of the support vector machine."""

    def _loss(self):
        return SquaredLoss(self.C)


def test_a_loss_is_a_class_and_its_machine_one_more():
    """The machine is kernel ridge regression on the labels, which has a closed form."""
    machine = LeastSquaresClassifier(C=2.0, fit_intercept=False, gamma=1.0).fit(X, Y)
    kernel = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    coefficients = np.linalg.solve(kernel + np.eye(len(X)) / 4, SIGNS)
    assert_allclose(machine.decision_function(X), kernel @ coefficients, atol=1e-9)
    residual = SIGNS - kernel @ coefficients
    optimum = 0.5 * coefficients @ kernel @ coefficients + 2 * residual @ residual
    assert machine.objective_ == pytest.approx(optimum, rel=1e-9)
    assert machine.status_ == "converged" and machine.certificate_ == "global"


@pytest.mark.parametrize("strategy", ["diodm", "dc", "cascade", "landmark"])
def test_the_machine_of_a_new_loss_has_every_strategy(strategy):
    tree = {"branching": 2, "n_levels": 1} if strategy != "landmark" else {"n_landmarks": 200}
    own = {"fit_intercept": False, "gamma": 1.0}
    machine = LeastSquaresClassifier(strategy=strategy, random_state=0, **own, **tree).fit(X, Y)
    exact = LeastSquaresClassifier(tol=1e-6, **own).fit(X, Y)
    assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=0.1)
    assert clone(machine).fit(X, Y).duality_gap_ == machine.duality_gap_ <= 1e-3


def test_a_machine_on_the_command_line_is_one_entry(monkeypatch):
    monkeypatch.setitem(estimators.MACHINES, "squares", LeastSquaresClassifier)
    from dimargin.cli.estimator_flags import make_machine

    machine = make_machine("squares", {"C": 2.5, "tol": 1e-4}, [])
    assert isinstance(machine, LeastSquaresClassifier) and (machine.C, machine.tol) == (2.5, 1e-4)


# ---- a kernel --------------------------------------------------------------------------------------------------------


def rational_quadratic(A, B):
    """One over one plus half the squared distance."""
    return 1 / (1 + 0.5 * ((A[:, None] - B) ** 2).sum(axis=2))


def test_a_kernel_is_a_function():
    machine = dm.SVMClassifier(kernel=rational_quadratic, C=3.0, fit_intercept=True, tol=1e-8).fit(X, Y)
    other = SVC(kernel=rational_quadratic, C=3.0, tol=1e-8).fit(X, Y)
    assert_allclose(machine.decision_function(X), other.decision_function(X), atol=1e-5)


# ---- a partition and a strategy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOrRight:
    """Strata of the rows left and right of a threshold in the first feature."""

    threshold: float
    n_strata = 2

    def of(self, part):
        return (np.asarray(part.problem.kernel.vectors(np.arange(part.n_rows)))[:, 0] > self.threshold).astype(int), 0


@dataclass(frozen=True)
class HalvedPartition(Partition):
    """Partition that deals the rows on either side of a threshold evenly."""

    threshold: float

    def strata(self, rows, n_rows, rng):
        return LeftOrRight(self.threshold), 0


@dataclass(eq=False, repr=False)
class Halved(DiODM):
    """DiODM with that partition in place of the paper's."""

    threshold: float = 0.5

    def _leaves(self, training, p, L):
        rng = np.random.default_rng(training.random_state)
        return HalvedPartition(self.threshold).deal(training.rows, training.facts.n_rows, p**L, rng)


def test_a_partition_deals_its_strata_evenly(monkeypatch):
    """Each of the leaves has a quarter of either side and label, give or take the row that cannot be divided."""
    dealt = []
    deal = HalvedPartition.deal
    monkeypatch.setattr(HalvedPartition, "deal", lambda *given: dealt.append(deal(*given)) or dealt[-1])
    dm.ODMClassifier(strategy=Halved(), n_levels=1, stop_level=1, random_state=0).fit(X, Y)
    for rows, labels in dealt[0].parts.collect(rows_and_labels):
        for side in (rows[:, 0] > 0.5, rows[:, 0] <= 0.5):
            for sign in (-1, 1):
                everywhere = ((X[:, 0] > 0.5) == (rows[side][0, 0] > 0.5)) & (sign == SIGNS)
                assert abs((labels[side] == sign).sum() - everywhere.sum() / 4) <= 1


def rows_and_labels(part, _):
    problem = part.problem
    return np.asarray(problem.kernel.vectors(np.arange(part.n_rows))), problem.labels[0]


def test_a_strategy_is_a_class_and_its_name_one_entry(monkeypatch):
    monkeypatch.setitem(strategies.STRATEGIES, "halved", Halved)
    machine = dm.ODMClassifier(strategy="halved", n_levels=2, branching=2, lam=1e3, random_state=0).fit(X, Y)
    assert [entry["partitions"] for entry in machine.history_] == [4, 2, 1]
    exact = dm.ODMClassifier(lam=1e3).fit(X, Y)
    assert machine.objective_ == pytest.approx(exact.objective_, rel=2e-3) and machine.certificate_ == "global"
    machine = dm.ODMClassifier(strategy=Halved()).set_params(strategy__threshold=0.1)
    assert machine.get_params()["strategy__threshold"] == 0.1
    with pytest.raises(ValueError, match="Halved: landmark_choice must be 'greedy' or 'random', got 'best'"):
        machine.set_params(strategy__landmark_choice="best").fit(X, Y)


# ---- a site program --------------------------------------------------------------------------------------------------


def test_a_site_program_is_a_class_with_its_messages():
    """All sites learn the largest of their numbers, though messages are lost, repeated and overtaken."""
    pytest.importorskip("msgspec")
    networkx = pytest.importorskip("networkx")
    from dimargin.gossip.messages import Finite, Message
    from dimargin.gossip.program import Send, SiteProgram, Wake
    from dimargin.gossip.simulation import Conditions
    from dimargin.gossip.simulation.simulator import Simulator

    class Largest(Message, frozen=True, tag="largest of the test"):
        value: Finite

    class Maximum(SiteProgram):
        shares, messages = "parameters", (Largest,)

        def __init__(self, value):
            self.value = value

        def start(self, now, neighbours):
            self.neighbourhood.change(neighbours)
            yield Wake(1.0)

        def wake(self, now, name):
            for neighbour in self.neighbourhood.names:
                yield Send(neighbour, Largest(self.value))
            yield Wake(1.0)

        def receive(self, now, sender, message):
            self.value = max(self.value, message.value)
            yield from ()

        def checkpoint(self):
            return {"value": self.value}

        def restore(self, state):
            self.value = max(self.value, state["value"])

    values = {f"site{k}": float(k * 7 % 10) for k in range(10)}
    sites = {name: partial(Maximum, value) for name, value in values.items()}
    graph = networkx.cycle_graph(10)
    simulator = Simulator(sites, graph, Conditions.asynchronous(loss=0.3, duplication=0.2), random_state=0)
    simulator.run(until=100)
    assert [program.value for program in simulator.programs.values()] == [9.0] * 10
