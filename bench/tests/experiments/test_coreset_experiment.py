"""The core-set experiment: what nodes come to against time, and core-set machines beside gossip."""

import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from ball_reference import quadratic_optimum
from report_page import Page

from dimargin.gossip.programs.core_set_settings import CoreSetSettings, rank
from dimargin.gossip.topology import changing_digraphs
from dimargin_bench.experiments import coreset_methods, experiment, printed_core_set
from dimargin_bench.experiments.coreset_answers import best_parameters, what_bytes_buy, what_losses_cost
from dimargin_bench.experiments.coreset_methods import GRID, NORMS, RADII, TUNED, ConsensusBall, SmallestBall
from dimargin_bench.experiments.declarations import Cell, Sample
from dimargin_bench.experiments.experiment_run import DataFacts, Options, PartResults, Record, run_experiment
from dimargin_bench.experiments.outcome import DONE, Outcome
from dimargin_bench.experiments.result_files import write_results
from dimargin_bench.experiments.split_data import load

pytest.importorskip("networkx")


@pytest.fixture(scope="module")
def points():
    return load("normal-24x4")


def test_points_have_no_file(points):
    assert points.X.shape == (24, 4) and points.y.tolist() == [1] * 24 and points.X_test is points.X
    assert load("normal-24x4", 10).X.shape == (10, 4)
    assert abs(load("normal-5000x3").X.std() - 1) < 0.02


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_every_node_has_its_lines(points, loss):
    """Radii never fall, all end at one, the ball holds all points, and an interior point finds none smaller."""
    ball = ConsensusBall(0.2, loss, random_state=1).fit(points.X, points.y)
    radii, norms = ball.traces_[RADII], ball.traces_[NORMS]
    lines = np.array(radii["lines"])
    assert lines.shape == np.shape(norms["lines"]) == (24, len(radii["x"]))
    assert radii["x"] == sorted(set(radii["x"])) and (np.diff(lines, axis=1) >= -1e-9).all()
    assert np.ptp(lines[:, -1]) == 0 and ball.metrics_["core_sets"] == 1
    products = points.X @ points.X.T
    smallest = quadratic_optimum(products, products.diagonal())
    assert radii["level"] == pytest.approx(smallest, rel=1e-6)
    assert (
        lines[0, -1] == pytest.approx(ball.metrics_["squared_radius"], rel=1e-5) and lines.max() <= smallest * 1.00001
    )
    assert norms["lines"][0][-1] == pytest.approx(np.linalg.norm(ball.centre_), rel=1e-5)
    assert np.ptp(lines[:, radii["x"].index(ball.metrics_["rounds"])]) == 0
    before = [entry for entry in ball.history_ if entry.get("digraph", np.inf) < ball.metrics_["rounds"]]
    agreed, *after = ball.history_[len(before) :]
    assert agreed["digraph"] == ball.metrics_["rounds"] and {one["core_sets"] for one in (agreed, *after)} == {1}
    assert before[-1]["core_sets"] > 1
    for name in ("messages", "bytes"):  # Others follow until all nodes have stopped.
        assert ball.metrics_[name] == agreed[name] < 0.9 * after[-1][name]
    assert ball.predict(points.X).all() and not ball.predict(10 + points.X).any()
    assert ball.metrics_["rows_shared"] >= len(ball.support_) and ball.history_[-1]["messages"] > 0
    assert SmallestBall().fit(points.X, points.y).metrics_["squared_radius"] == pytest.approx(smallest, rel=1e-6)


def smallest(points):
    """Centre, radius and support of the smallest ball, of those through some of the points that hold all."""
    balls = []
    for size in range(1, len(points) + 1):
        for some in combinations(range(len(points)), size):
            first, others = points[some[0]], points[list(some[1:])]
            steps = others - first
            centre = first + np.linalg.pinv(2 * steps) @ (steps**2).sum(axis=1) if len(steps) else first
            radius = np.linalg.norm(first - centre)
            if np.linalg.norm(points - centre, axis=1).max() <= radius * (1 + 1e-9) + 1e-12:
                balls.append((radius, size, some, centre))
    radius, _, some, centre = min(balls, key=lambda ball: (round(ball[0], 9), ball[1]))
    return centre, radius, some


def routine(given, start, size, points):
    """The function coreset of the paper, section IV-A, line by line; sets that are smaller than `size` grow first."""
    core = set(start)
    while True:
        centre, radius, _ = smallest(points[sorted(core)])
        wider = core | {max(given, key=lambda p: np.linalg.norm(points[p] - centre))}
        radii = {p: smallest(points[sorted(wider - {p})])[1] for p in sorted(wider)} if len(wider) > size else {}
        better = wider - {max(radii, key=radii.__getitem__)} if radii else wider
        if smallest(points[sorted(better)])[1] <= radius * (1 + 1e-10):
            return core
        core = better


def named(core):
    """Names of vectors, in their order."""
    return tuple(sorted(f"site{k}" for k in core))


def algorithm_1(points, size, graph, n_rounds, keeps_idle):
    """Squared radii of all nodes after every round of the paper's Algorithm 1, a vector at each node.

    Without `keeps_idle` vectors without weight are dropped from core-sets.
    """
    nodes = range(len(points))
    cores, squares = [{k} for k in nodes], [[0.0] * len(points)]
    for now in range(1, n_rounds):
        edges, received = graph(float(now)), [cores[k] for k in nodes]
        for k in nodes:
            known = [received[k], *(received[j] for j in edges.predecessors(k))]
            best = max(known, key=lambda core: rank(smallest(points[sorted(core)])[1] ** 2, named(core)))
            found = sorted(routine({k}.union(*known), best, size, points))
            cores[k] = set(found) if keeps_idle else {found[j] for j in smallest(points[found])[2]}
        squares.append([smallest(points[sorted(core)])[1] ** 2 for core in cores])
    return np.array(squares), cores


@pytest.mark.parametrize("keeps_idle", [True, False])
def test_radii_are_those_of_the_printed_algorithm(monkeypatch, keeps_idle):
    """At all nodes and in all rounds; also with dimargin's own core-sets, which drop vectors without weight."""
    if not keeps_idle:
        monkeypatch.setattr(printed_core_set, "PrintedSettings", CoreSetSettings)
    X = load("normal-24x4").X
    ball = ConsensusBall(0.25, random_state=1).fit(X, None)
    ours = np.array(ball.traces_[RADII]["lines"]).T[: ball.metrics_["rounds"] + 1]
    expected, cores = algorithm_1(X, 4, changing_digraphs(24, 0.01, 1), len(ours), keeps_idle)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    assert (np.diff(expected, axis=0) >= -1e-9).all() and len({frozenset(core) for core in cores}) == 1
    assert set(ball.support_) <= cores[0]


def test_nodes_with_several_vectors_agree_within_the_bounds():
    """Remark IV.2, and both bounds: that of Theorem IV.5, and r(C)/(1 - epsilon) in Remark IV.6."""
    X = load("normal-240x8").X
    ball = ConsensusBall(0.25, n_points=10, random_state=0).fit(X, None)
    radii = ball.traces_[RADII]
    assert np.shape(radii["lines"]) == (24, len(radii["x"])) and len(ball.support_) <= 4
    centre, smallest_radius = ball.centre_, np.sqrt(radii["level"])
    farthest = np.linalg.norm(X - centre, axis=1).max()
    own = np.linalg.norm(X[ball.support_] - centre, axis=1).max()
    assert own < farthest <= min(1.25 * smallest_radius, own / 0.75)
    assert ball.metrics_["core_sets"] == 1 and ball.metrics_["reach_ratio"] == pytest.approx(farthest / smallest_radius)
    assert ball.metrics_["own_reach_ratio"] == pytest.approx(farthest / own)
    assert ball.metrics_["centre_norm"] == pytest.approx(np.linalg.norm(centre))


def parts_of(*names):
    """Declared parts on fewer points."""
    declared = experiment("coreset")
    found = {part.name: part for part in declared.parts}
    small = [replace(found[name], quick_data=(Sample("normal-24x4"),)) for name in names]
    return replace(declared, parts=tuple(small))


def test_the_pages_of_the_figures_and_the_theorem(tmp_path):
    declared = parts_of("figure-1", "figure-2", "theorem-4-5", "bad-weather")
    results = run_experiment(declared, tmp_path, Options(quick=True))
    write_results(results, tmp_path)
    assert {record.outcome.status for record in results.records} == {DONE}
    page = Page(tmp_path / "report.html")
    assert page.source.count("<svg") == 2 and page.source.count("24 nodes") >= 2
    assert "No radius has ever fallen" in page.texts["answer-figure-1"]
    assert "the norms of the centres" in page.texts["answer-figure-2"]
    theorem = declared.parts[2].answer(results.parts[2])
    assert page.texts["answer-theorem-4-5"] in theorem
    assert theorem.count("one core-set at every node") == 3 and theorem.count("within") == 7 and "ABOVE" not in theorem
    assert theorem.endswith("in 3 of these 3 cases they are.")
    found = re.findall(r": all nodes have one core-set after (\d+) rounds\.", what_losses_cost(results.parts[3]))
    assert len(found) == 2 and what_losses_cost(results.parts[3]).startswith(page.texts["answer-bad-weather"])
    cells = json.loads((tmp_path / "cells.json").read_text())["cells"]
    assert len(cells[1]["traces"][RADII]["lines"]) == 24 and cells[0]["traces"] == {}
    again = run_experiment(declared, tmp_path, Options(quick=True))
    assert [one.outcome for one in again.records] == [one.outcome for one in results.records]


def test_machines_of_sites_and_of_one_place_are_the_same(moons, tmp_path):
    declared = experiment("coreset")
    only = ["core-set, linear, agreed", "core-set, linear, one place", "GADGET, 30 rounds", "kernel GADGET, 30 rounds",
            "admm, 30 rounds", "choco, 30 rounds", "msg-svm, 30 rounds"]  # fmt: skip
    (part,) = [part for part in declared.parts if part.name == "beside-gossip"]
    beside = replace(part, quick_data=(Sample("svmguide1"),))
    results = run_experiment(replace(declared, parts=(beside,)), tmp_path, Options(quick=True, only=only))
    metrics = {record.cell.method.name: record.outcome.metrics for record in results.records}
    agreed, alone, gadget, kernel, *rivals = (metrics[name] for name in only)
    assert kernel["bytes"] > gadget["bytes"] and kernel["rows_shared"] == 0 < kernel["gap"]
    assert agreed["objective"] == pytest.approx(alone["objective"], rel=1e-3) and "bytes" not in alone
    assert agreed["rows_shared"] >= agreed["support_vectors"] > 0 == gadget["rows_shared"]
    assert [one["rows_shared"] > 0 for one in rivals] == [False, False, True]
    own = [record.cell.parameters for record in results.records if record.cell.method.name.startswith("core-set")]
    assert [one["C"] for one in own] == [1 / (1e-4 * results.parts[0].data[0].rows)] * 2
    assert agreed["bytes"] > 0 < gadget["bytes"] and "core-set, linear, agreed" in beside.answer(results.parts[0])
    for record in results.records:  # every machine has an intercept
        machine = record.cell.make()
        machine = machine[-1] if hasattr(machine, "steps") else machine
        assert getattr(machine, "fit_intercept", True)


def results_of(part, data, metrics):
    """Results of a part, as they would be with these metrics of its methods."""
    (declared,) = [one for one in experiment("coreset").parts if one.name == part]
    found = PartResults(declared, [DataFacts(data, data.split(",")[0], 100, 50, 2, 2, "0")])
    by_name = {method.name: method for method in declared.methods}
    for name, values in metrics.items():
        cell = Cell(data, by_name[name], {})
        found.records.append(Record(cell, "", Outcome(DONE, metrics=values)))
    return found


def test_the_best_method_is_named_whoever_it_is():
    found = results_of("beside-gossip", "a9a, 100 rows", {
        "core-set, linear, one place": {"accuracy": 0.90},
        "core-set, linear, agreed": {"accuracy": 0.90, "bytes": 3e6, "rows_shared": 40},
        "core-set, linear, 4 rounds": {"accuracy": 0.895, "bytes": 1e6, "rows_shared": 30},
        "msg-svm, 30 rounds": {"accuracy": 0.91, "bytes": 2e6, "rows_shared": 20},
        "msg-svm, 100 rounds": {"accuracy": 0.91, "bytes": 2.5e6, "rows_shared": 20},
        "admm, 30 rounds": {"accuracy": 0.88, "bytes": 1.5e6, "rows_shared": 0},
        "admm, 100 rounds": {"accuracy": 0.92, "bytes": 9e6, "rows_shared": 0},
        "choco, 30 rounds": {"accuracy": 0.5, "bytes": 1e6, "rows_shared": 0},
    })  # fmt: skip
    said = what_bytes_buy(found)
    assert 'the best is "msg-svm, 30 rounds" (91.00% for 2 MB, 20% of the rows shared); of those' in said
    assert 'share no rows it is "admm, 30 rounds" (88.00% for 1.5 MB).' in said
    assert (
        'by bytes: "core-set, linear, 4 rounds" (89.50% for 1 MB, 30% of the rows shared), "msg-svm, 30 rounds" '
        '(91.00% for 2 MB, 20% of the rows shared), "admm, 100 rounds" (92.00% for 9 MB); never "choco".'
    ) in said


def test_the_best_method_may_share_no_rows():
    said = what_bytes_buy(results_of("beside-gossip", "a9a, 100 rows", {
        "core-set, linear, one place": {"accuracy": 0.90},
        "core-set, linear, agreed": {"accuracy": 0.90, "bytes": 3e6, "rows_shared": 40},
        "admm, 30 rounds": {"accuracy": 0.91, "bytes": 1e6, "rows_shared": 0},
    }))  # fmt: skip
    assert 'the best is "admm, 30 rounds" (91.00% for 1 MB), which shares no rows.' in said


def test_nodes_that_do_not_agree_are_counted(monkeypatch, points):
    """Neither a number of rounds nor a sentence says that they do."""
    monkeypatch.setattr(coreset_methods, "MAX_ROUNDS", 4)
    apart = ConsensusBall(0.2, random_state=1).fit(points.X, points.y)
    assert apart.metrics_["core_sets"] > 1 and "rounds" not in apart.metrics_
    assert apart.metrics_["bytes"] == apart.history_[-1]["bytes"] > 0
    found = results_of("bad-weather", "normal-24x4", {"consensus": apart.metrics_})
    assert what_losses_cost(found) == "consensus: in 1 of 1 runs the nodes still have DIFFERENT core-sets at the end."


def test_core_set_machines_weigh_rows_as_the_others_do():
    """C = 1 / (alpha n) for the n rows in use, whichever; gossip has alpha."""
    (part,) = [part for part in experiment("coreset").parts if part.name == "beside-gossip"]
    for data, alpha in (("svmguide1", 1e-4), ("a9a", 1e-3), ("mine.csv", 1e-4)):
        assert part.of_rows(data, "core-set, rbf, agreed", 300) == {"C": 1 / (alpha * 300)}
        assert part.of_rows(data, "admm, 30 rounds", 300) == {}
        assert part.parameters(data, "admm, 30 rounds")["alpha"] == alpha


def test_parameters_in_use_are_points_of_the_grid():
    names = {method.name for method in GRID}
    for data in ("svmguide1", "a9a", "cod-rna"):
        for line, values in TUNED[data].items():
            assert f"{line}, {', '.join(f'{name}={value:g}' for name, value in values.items())}" in names
    best, other = "admm, rho=0.03, over_relaxation=1.6", "admm, rho=1, over_relaxation=1"
    said = best_parameters(
        results_of("tuning", "svmguide1, 100 rows", {best: {"objective": 1}, other: {"objective": 2}})
    )
    assert said == f"svmguide1, 100 rows: {best}, with 1 (in use)."
    said = best_parameters(
        results_of("tuning", "svmguide1, 100 rows", {best: {"objective": 2}, other: {"objective": 1}})
    )
    assert said == f"svmguide1, 100 rows: {other}, with 1 (in use is {best.removeprefix('admm, ')})."
