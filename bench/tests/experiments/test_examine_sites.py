"""Metrics of linear machines that sites have learnt, beside those that are computed row by row."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin_bench.experiments.examine_sites import (
    ALPHA,
    behind_features,
    beside_the_optimum,
    of_production_line,
    of_sites,
)
from dimargin_bench.experiments.observed_sites import ObservedSites
from dimargin_bench.experiments.oversampled import Oversampled
from dimargin_bench.experiments.split_data import Split
from dimargin_bench.kernel_rivals import DistEval, LocalADMM, Pegasos, PseudoDistributed

# thirty rounds are few, and LIBLINEAR takes long to the last digits where the regulariser weighs
# little
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", params=[2, 3])
def split(request):
    X, y = make_classification(
        400, 6, n_informative=4, n_classes=request.param, n_clusters_per_class=1, flip_y=0.1, random_state=0
    )
    return Split(X[:300], y[:300], X[300:], y[300:])


def by_hand(coefficients, intercepts, split):
    """The objective, output by output and row by row."""
    classes = np.unique(split.y)
    total = 0.0
    for w, b, label in zip(coefficients, intercepts, classes[1:] if len(classes) == 2 else classes, strict=True):
        losses = [max(0.0, 1 - (1 if y == label else -1) * (x @ w + b)) for x, y in zip(split.X, split.y, strict=True)]
        total += ALPHA / 2 * (w @ w + b * b) + sum(losses) / len(losses)
    return total


@pytest.mark.parametrize("average", [False, True])
def test_objectives_and_the_worst_site_are_those_by_hand(split, average):
    machine = GossipSVMClassifier(
        n_sites=5,
        topology="ring",
        alpha=ALPHA,
        fit_intercept=True,
        shards="sorted",
        average=average,
        max_iter=30,
        random_state=0,
    )
    machine.fit(split.X, split.y)
    found = beside_the_optimum(machine, split)
    best = LinearSVC(C=1 / (ALPHA * 300), loss="hinge", tol=1e-6, max_iter=20_000, random_state=0)
    best.fit(split.X, split.y)
    optimum = by_hand(best.coef_, best.intercept_, split)
    assert found["rounds"] == 30
    assert found["excess"] == pytest.approx(by_hand(machine.coef_, machine.intercept_, split) / optimum - 1, abs=1e-4)
    shape = (5, len(machine.coef_))
    each = machine.site_average_coef_ if average else machine.site_coef_
    shifts = machine.site_average_intercept_ if average else machine.site_intercept_
    sites = [*zip(each.reshape(*shape, -1), shifts.reshape(shape), strict=True)]
    worst = max(by_hand(coefficients, intercepts, split) for coefficients, intercepts in sites)
    assert found["worst_excess"] == pytest.approx(worst / optimum - 1, abs=1e-4)
    assert -1e-3 < found["excess"] < found["worst_excess"]
    predicted = []
    for w, b in sites:
        values = split.X_test @ w.T + b
        codes = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        predicted.append(np.mean(machine.classes_[codes] == split.y_test))
    assert found["worst_accuracy"] == min(predicted)
    assert found["accuracy"] == pytest.approx(np.mean(predicted))  # of the sites, as in the paper
    assert found["accuracy_sd"] == pytest.approx(np.std(predicted))


def test_the_optimum_has_no_excess_and_a_model_without_coefficients_no_objective(split):
    best = LinearSVC(C=1 / (ALPHA * 300), loss="hinge", tol=1e-6, max_iter=20_000, random_state=0)
    assert abs(beside_the_optimum(best.fit(split.X, split.y), split)["excess"]) < 1e-9
    assert of_sites(object(), split) == {}


@pytest.fixture(scope="module")
def halves():
    X, y = make_classification(400, 6, n_informative=4, flip_y=0.1, random_state=0)
    return Split(X[:300], y[:300], X[300:], y[300:])


def test_sites_that_stay_apart_have_the_mean_of_their_accuracies(halves):
    apart, together = (
        PseudoDistributed(LinearSVC(random_state=0), 5, combine=combine, random_state=0).fit(halves.X, halves.y)
        for combine in ("none", "average")
    )
    found, joint = of_sites(apart, halves), of_sites(together, halves)
    scores = [one.score(halves.X_test, halves.y_test) for one in apart.estimators_]
    assert found["accuracy"] == pytest.approx(np.mean(scores)) and found["accuracy_sd"] == pytest.approx(np.std(scores))
    assert found["seconds"] == pytest.approx(apart.site_seconds_.mean())
    assert joint["accuracy"] == together.score(halves.X_test, halves.y_test) and "accuracy_sd" not in joint


def test_what_machines_say_of_their_end_and_their_queries(halves):
    admm = PseudoDistributed(LocalADMM(max_iter=3), 4, combine="none", random_state=0).fit(halves.X, halves.y)
    found = of_sites(admm, halves)
    assert (found["rounds"], found["converged"]) == (3, 0)
    pegasos = Pegasos(alpha=0.01, batch_size=None, epsilon=0.1, max_iter=2000).fit(halves.X, halves.y)
    found = of_sites(pegasos, halves)
    assert (found["rounds"], found["converged"], found["seconds"]) == (pegasos.n_iter_, 1, pegasos.seconds_)
    assert "seconds_sd" not in found
    queried = DistEval(LinearSVC(), 4, "ring", random_state=0).fit(halves.X, halves.y)
    queried.predict(halves.X_test)
    bytes_sent, seconds = queried.query_costs_.bytes, queried.query_costs_.seconds
    found = of_sites(queried, halves)
    assert found["bytes"] == bytes_sent > 100
    assert found["seconds"] == pytest.approx(queried.site_seconds_.mean() + seconds / 4)  # a site's share of the filter


def test_seconds_of_sites_in_one_process_are_those_of_one_of_them(halves):
    by_rule, by_itself = (
        ObservedSites(alpha=0.01, n_sites=5, epsilon=epsilon, max_iter=300, random_state=0).fit(halves.X, halves.y)
        for epsilon in (0.05, None)
    )
    found, of_itself = of_sites(by_rule, halves), of_sites(by_itself, halves)
    assert found["seconds"] == pytest.approx(sum(by_rule.site_seconds_) / 25)
    assert found["seconds_sd"] == pytest.approx(np.std(by_rule.site_seconds_) / 5) and found["seconds_sd"] > 0
    assert of_itself["seconds"] == pytest.approx(by_itself.history_[0]["seconds"] / 5)
    assert "seconds_sd" not in of_itself  # All sites end at one time.


def test_profiles_and_figures_of_the_production_line_are_those_of_the_entries(halves):
    machine = ObservedSites(
        alpha=0.01, n_sites=4, epsilon=0.02, n_quiet=(1, 3), runs_on=True, max_iter=150, random_state=0
    ).fit(halves.X, halves.y)
    found = of_production_line(machine, halves)
    scores = 100 * np.array([
        [np.mean((halves.X_test @ weights[0] > 0) == halves.y_test) for weights in entry.weights]
        for entry in machine.entries_
    ])  # fmt: skip
    traces, iterations = machine.traces_, [entry.iteration for entry in machine.entries_]
    np.testing.assert_allclose(traces["profile"]["lines"], scores.T)
    assert traces["profile"]["x"] == pytest.approx([entry.seconds / 4 for entry in machine.entries_])
    np.testing.assert_allclose(traces["hub accuracy"]["lines"][0], scores[:, 0])
    one, three = machine.convergence_
    for k in range(4):
        until = scores[np.array(iterations) <= one.first[k], k]
        assert traces["largest"]["lines"][0][k] == pytest.approx(until.max())
        assert traces["mean"]["lines"][0][k] == pytest.approx(until.mean())
    assert found["converged_at_1"] == 4 and found["converged_at_3"] == (three.first > 0).sum()
    times = traces["times"]
    assert times["names"] == ["Converge@1 itr", "Converge@3 itr"] and times["lines"][0][0] == 100
    assert times["lines"][0][-1] == 100 * np.mean(one.times >= times["x"][-1])
    signs = 2.0 * halves.y - 1
    w = machine.entries_[-1].weights[0, 0]
    expected = 0.01 / 2 * w @ w + np.maximum(0, 1 - signs * (halves.X @ w)).mean()
    assert traces["hub objective"]["lines"][0][-1] == pytest.approx(expected)


def test_rows_of_the_rarer_class_count_for_themselves(halves):
    kept = np.flatnonzero((halves.y == 0) | (np.arange(300) % 10 == 0))
    rare = Split(halves.X[kept], halves.y[kept], halves.X_test, halves.y_test)
    plain, oversampled = (
        make(LinearSVC(C=0.01, random_state=0)).fit(rare.X, rare.y) for make in (lambda one: one, Oversampled)
    )
    of_plain, of_oversampled = (of_production_line(machine, rare) for machine in (plain, oversampled))
    expected = np.mean(oversampled.predict(rare.X_test[rare.y_test == 1]) == 1)
    assert of_oversampled["rare_accuracy"] == pytest.approx(expected) and expected > of_plain["rare_accuracy"] + 0.2


def test_machines_on_features_are_compared_there(split):
    features = PolynomialFeatures(2, include_bias=False).fit(split.X)
    machine = GossipSVMClassifier(alpha=ALPHA, fit_intercept=True, max_iter=30, random_state=0)
    found = behind_features(make_pipeline(features, machine).fit(split.X, split.y), split)
    mapped = Split(features.transform(split.X), split.y, features.transform(split.X_test), split.y_test)
    expected = beside_the_optimum(machine, mapped)
    assert {name: found[name] for name in expected} == expected
    assert found["bytes"] == machine.history_[-1]["bytes"] and found["worst_excess"] > 0
