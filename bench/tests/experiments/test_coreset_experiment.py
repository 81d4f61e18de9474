"""The core-set experiment: what nodes come to against time, and core-set machines beside gossip."""

import json
from dataclasses import replace

import numpy as np
import pytest
from ball_reference import quadratic_optimum
from report_page import Page

from dimargin_bench.experiments import experiment
from dimargin_bench.experiments.coreset_methods import NORMS, RADII, ConsensusBall, SmallestBall
from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.experiments.experiment_run import Options, run_experiment
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
    at = radii["x"].index(ball.metrics_["rounds"])
    assert np.ptp(lines[:, at]) == 0 < np.ptp(lines[:, at - 1])
    assert ball.predict(points.X).all() and not ball.predict(10 + points.X).any()
    assert ball.metrics_["rows_shared"] >= len(ball.support_) and ball.history_[-1]["messages"] > 0
    assert SmallestBall().fit(points.X, points.y).metrics_["squared_radius"] == pytest.approx(smallest, rel=1e-6)


def test_the_page_has_a_picture_for_every_run_and_both_figures(tmp_path):
    declared = experiment("coreset")
    balls = replace(declared.parts[0], quick_data=(Sample("normal-24x4"),))
    results = run_experiment(replace(declared, parts=(balls,)), tmp_path, Options(quick=True))
    write_results(results, tmp_path)
    assert [record.outcome.status for record in results.records] == ["done"] * 3
    page = Page(tmp_path / "report.html")
    assert page.source.count("<svg") == 4 and page.source.count("24 nodes") == 4
    assert "Until all nodes have the same core-set" in page.texts["answer-section-5"]
    row = page.tables["table-section-5-data-0-0"][2]
    assert row[0] == "consensus†" and row[1] == "100.00"
    cells = json.loads((tmp_path / "cells.json").read_text())["cells"]
    assert len(cells[1]["traces"][RADII]["lines"]) == 24 and cells[0]["traces"] == {}
    again = run_experiment(replace(declared, parts=(balls,)), tmp_path, Options(quick=True))
    assert [one.outcome for one in again.records] == [one.outcome for one in results.records]


def test_machines_of_sites_and_of_one_place_are_the_same(moons, tmp_path):
    declared = experiment("coreset")
    only = ["core-set, linear, agreed", "core-set, linear, one place", "GADGET, 30 rounds", "kernel GADGET, 30 rounds"]
    beside = replace(declared.parts[1], quick_data=(Sample("svmguide1"),))
    results = run_experiment(replace(declared, parts=(beside,)), tmp_path, Options(quick=True, only=only))
    metrics = {record.cell.method.name: record.outcome.metrics for record in results.records}
    agreed, alone, gadget, kernel = (metrics[name] for name in only)
    assert kernel["bytes"] > gadget["bytes"] and kernel["rows_shared"] == 0 < kernel["gap"]
    assert agreed["objective"] == pytest.approx(alone["objective"], rel=1e-3) and "bytes" not in alone
    assert agreed["rows_shared"] >= agreed["support_vectors"] > 0 == gadget["rows_shared"]
    assert agreed["bytes"] > 0 < gadget["bytes"] and "core-set, linear, agreed" in beside.answer(results.parts[0])
