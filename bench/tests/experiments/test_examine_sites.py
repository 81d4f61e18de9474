"""Metrics of linear machines that sites have learnt, beside those that are computed row by row."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin_bench.experiments.examine_sites import ALPHA, of_sites
from dimargin_bench.experiments.split_data import Split

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
    found = of_sites(machine, split)
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


def test_the_optimum_has_no_excess_and_a_model_without_coefficients_no_objective(split):
    best = LinearSVC(C=1 / (ALPHA * 300), loss="hinge", tol=1e-6, max_iter=20_000, random_state=0)
    assert abs(of_sites(best.fit(split.X, split.y), split)["excess"]) < 1e-9
    assert of_sites(object(), split) == {}
