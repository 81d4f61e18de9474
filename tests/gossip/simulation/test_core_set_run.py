"""A simulated run to consensus, watched from above."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from ball_reference import quadratic_optimum

from dimargin import minimum_enclosing_ball
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults
from dimargin.gossip.simulation.core_set_run import CoreSetRun
from dimargin.gossip.topology import changing_digraphs, make_graph
from dimargin.kernels.functions import Kernel

EXACT = CoreSetSettings(epsilon=0.0)


def run_of(settings=EXACT, **changes):
    X, one = np.random.default_rng(0).normal(size=(90, 5)), np.ones(90)
    run = CoreSetRun(X, one, np.arange(90) % 9, 9, settings, make_graph("ring", 9))
    return replace(run, **changes)


@pytest.mark.slow
def test_the_paper():
    """Section V: 100 nodes, d = 50, epsilon = 0.1, p = 0.01."""
    X = np.random.default_rng(0).normal(size=(100, 50))
    settings, one = CoreSetSettings(size=10, quiet_rounds=15), np.ones(100)
    agreed = CoreSetRun(X, one, np.arange(100), 100, settings, changing_digraphs(100, 0.01)).run(100)
    best = minimum_enclosing_ball(X, 0).radius
    last = agreed.history[-1]
    assert agreed.status == "converged" and agreed.agreed_after <= 30
    assert last["radius_min"] == last["radius_max"] >= 0.995 * best and last["farthest"] <= 1.1 * best
    reach = np.linalg.norm(X - agreed.best.weights @ X[agreed.indices(agreed.best)], axis=1).max()
    assert last["farthest"] == pytest.approx(reach)


def test_nodes_keep_no_more_vectors_than_a_core_set_has(monkeypatch):
    """After a round they have one core-set, their own. All agree on a ball that holds all points."""
    run, kept = run_of(settings=CoreSetSettings(epsilon=0.25, size=4)), []
    a_round = CoreSetConsensus.wake

    def watched(self, now, name):
        yield from a_round(self, now, name)
        kept.append([len(points.names) for points in self.core_sets])

    monkeypatch.setattr(CoreSetConsensus, "wake", watched)
    last = run.run(200).history[-1]
    assert {len(sizes) for sizes in kept} == {1} and min(kept) >= [1] and max(kept) == [4]
    assert last["core_sets"] == 1 and last["farthest"] <= 1.25 * minimum_enclosing_ball(run.X, 0).radius


def test_history_of_a_run():
    run = run_of(conditions=Conditions(LinkFaults(loss=0.2)))
    agreed = run.run(200)
    ball = minimum_enclosing_ball(run.X, 0)
    np.testing.assert_array_equal(np.sort(agreed.indices(agreed.best)), ball.core_set_indices)
    rounds = [entry["round"] for entry in agreed.history]
    assert rounds == list(range(rounds[0], rounds[-1] + 1))
    for name in ("radius_min", "radius_mean", "radius_max", "messages", "bytes"):
        values = [entry[name] for entry in agreed.history if name in entry]
        assert values == sorted(values)
    assert agreed.history[-1]["core_sets"] == 1 and agreed.history[-1]["farthest"] == pytest.approx(ball.radius)
    before = next(entry for entry in agreed.history if entry["round"] == agreed.agreed_after - 1)
    assert before["core_sets"] > 1
    assert len(ball.core_set_indices) <= agreed.rows_shared <= 90
    assert [entry["bytes"] for entry in replace(run).run(200).history] == [entry["bytes"] for entry in agreed.history]


def test_a_time_limit_ends_a_site_that_improves_its_core_set():
    """A site may take minutes for thousands of its own rows."""
    sizes = []
    for deadline in (None, time.perf_counter()):
        run = run_of(replace(EXACT, kernel=Kernel("rbf", gamma=5.0))).run(1, deadline=deadline)
        sizes.append([len(one.points.names) for one in run.chosen])
    assert min(sizes[0]) > 5 and set(sizes[1]) == {1}  # the farthest point, at the first look


def test_runs_that_end_early():
    assert run_of().run(2).status == "max_iter"
    assert run_of().run(200, deadline=time.perf_counter()).status == "max_time"
    interrupted = Event()
    interrupted.set()
    assert run_of().run(200, interrupted=interrupted).status == "stopped"
    assert run_of().run(200, watch=lambda entry: entry["round"] >= 3).history[-1]["round"] == 3
    assert run_of().run(2).agreed_after is None


def test_a_margin_machine_has_no_radius():
    settings = CoreSetSettings("margin", 1e-3, C=1.0, intercept=True)
    agreed = run_of(settings, signs=np.where(np.arange(90) % 2, 1.0, -1.0)).run(200)
    assert agreed.status == "converged" and "radius_min" not in agreed.history[-1]


def test_the_hard_margin_machine_in_bad_weather():
    """Without softness, messages late, lost and doubled: rho is that of an interior-point solver."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] > 0, 1.0, -1.0)
    X += 0.1 * y[:, None] * [1.0, -1.0, 0.5]
    agreed = replace(
        run_of(CoreSetSettings.for_gap("margin", np.inf, 1e-6, Kernel("linear"), intercept=True)),
        X=X, signs=y, site=np.arange(60) % 9, conditions=Conditions.asynchronous(loss=0.3, duplication=0.2),
    ).run(200)  # fmt: skip
    products, longest = np.outer(y, y) * (X @ X.T + 1), (X**2).sum(axis=1).max() + 1
    rho = longest - quadratic_optimum(products, np.full(60, longest))
    assert agreed.history[-1]["core_sets"] == 1 and agreed.settings.is_separated(agreed.best)
    assert agreed.best.value == pytest.approx(-rho, rel=1e-5)
