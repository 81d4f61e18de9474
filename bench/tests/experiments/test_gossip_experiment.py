"""The gossip experiment: its sentences from results that are made up, and its methods on moons."""

from dataclasses import replace

import pytest
from experiment_methods import made_up

from dimargin_bench.experiments import experiment
from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.experiments.experiment_run import Options, run_experiment

pytest.importorskip("networkx")
pytest.importorskip("msgspec")


def results(name, figures):
    """Results of a part, on one data set: for each method and case some metrics."""
    (declared,) = experiment("gossip").chosen([name])
    return made_up(declared, {("a9a", *names, 0): metrics for names, metrics in figures.items()})


def test_what_a_percent_costs_is_the_first_run_that_is_near_enough():
    found = results(
        "bytes",
        {
            ("tracked", "100 rounds"): {"worst_excess": 0.05, "bytes": 1e6},
            ("tracked", "300 rounds"): {"worst_excess": 0.01, "bytes": 3e6},
            ("tracked", "1000 rounds"): {"worst_excess": 0.001, "bytes": 1e7},
            ("admm", "10 rounds"): {"worst_excess": 0.002, "bytes": 2.5e5},
            ("d-sgd", "1000 rounds"): {"worst_excess": 0.02, "bytes": 1e5},
        },
    )
    assert found.part.answer(found).splitlines()[1:] == ["a9a: admm 0.25 MB (10 rounds); tracked 3 MB (300 rounds)."]


def test_the_best_points_of_grids_are_told_for_each_deal():
    points = [method.name for method in experiment("gossip").chosen(["tuning"])[0].methods if method.line == "admm"][:2]
    found = results(
        "tuning",
        {
            (points[0], "at random"): {"worst_excess": 0.02},
            (points[1], "at random"): {"worst_excess": 0.01},
            (points[0], "sorted by label"): {"worst_excess": 12.345},
        },
    )
    first, second = (name.removeprefix("admm, ") for name in points)
    at_random, by_label = found.part.answer(found).splitlines()
    assert f"admm: {second} (1% above)" in at_random and f"admm: {first} (1,234% above)" in by_label


def test_the_worst_attack_on_each_rule_is_told():
    found = results(
        "liars",
        {
            ("mean", "sign flip"): {"honest_accuracy": 0.3},
            ("mean", "nobody lies"): {"honest_accuracy": 0.9},
            ("trimmed", "a little"): {"honest_accuracy": 0.85},
        },
    )
    assert "mean 30.0% (sign flip), trimmed 85.0% (a little)" in found.part.answer(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytes", "bytes-sorted", "tables-2-to-4", "tables-5-and-6", "tuning", "liars"])
def test_every_method_runs(name, moons, tmp_path):
    declared = experiment("gossip")
    (part,) = declared.chosen([name])
    few = replace(
        part,
        quick_data=(Sample("svmguide1"),),
        parameters=lambda data, method: {"max_iter": 5},
        quick_cases=[*part.cases][:1],
    )
    found = run_experiment(replace(declared, parts=(few,)), tmp_path, Options(quick=True, jobs=2))
    assert not found.failures and len(found.records) == len(part.methods)
    for record in found.records:
        metrics = record.outcome.metrics
        assert 0 <= metrics["accuracy"] <= 1 and 0 <= metrics["balanced_accuracy"] <= 1
        assert ("bytes" in metrics) == ("rounds" in metrics)


def test_more_rounds_bring_sites_nearer_to_the_optimum_and_cost_more(moons, tmp_path):
    declared = experiment("gossip")
    (part,) = declared.chosen(["bytes"])
    few = replace(part, quick_data=(Sample("svmguide1"),), quick_cases=("10 rounds", "300 rounds"))
    found = run_experiment(replace(declared, parts=(few,)), tmp_path, Options(quick=True, only=["tracked"]))
    first, last = (record.outcome.metrics for record in found.records)
    assert 0 < last["worst_excess"] < first["worst_excess"]
    assert last["bytes"] == pytest.approx(30 * first["bytes"], rel=0.05)  # numbers of rounds have more digits later
    assert (first["rounds"], last["rounds"]) == (10, 300)
