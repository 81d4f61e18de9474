"""Fewer support vectors, against projections that are computed by scikit-learn's kernels."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_machines import fitted, machines, rows_and_labels
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dimargin as dm
from dimargin import svm
from dimargin.export.plain_model import plain_machine


def kernel_of(machine):
    """Return the kernel as a function of scikit-learn."""
    kernel = plain_machine(machine).kernel
    if kernel.name == "poly":
        return lambda A, B: polynomial_kernel(A, B, kernel.degree, kernel.gamma, kernel.coef0)
    function = {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[kernel.name]
    return lambda A, B: function(A, B, kernel.gamma)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(machines(kernels=("rbf", "laplacian", "poly")), st.floats(0.05, 1.0))
def test_no_decision_value_changes_by_more_than_the_bound(drawn, share):
    machine, rows = drawn
    before = plain_machine(machine)
    if before.kernel.name == "linear" or not len(before.vectors):
        return
    small, report = dm.compress(machine, share if share < 1 else len(before.vectors), rows)
    after, kernel = plain_machine(small), kernel_of(machine)
    assert report["kept"] == len(after.vectors) <= max(1, np.ceil(share * len(before.vectors)))
    values = [kernel(rows, one.vectors) @ one.coefficients.T for one in (before, after)]
    sizes = np.sqrt(kernel(rows, rows).diagonal())[:, None]
    rounding = (
        1e-6 * np.abs(before.coefficients).sum() * np.sqrt(kernel(before.vectors, before.vectors).diagonal().max())
    )
    assert (np.abs(values[0] - values[1]) <= (report["bound"] + rounding) * sizes).all()
    if before.pair_scores != "votes":
        assert report["largest_change"] <= ((report["bound"] + rounding) * sizes).max()
    assert (after.intercepts == before.intercepts).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("way", ["one_vs_rest", "one_vs_one"])
def test_functions_are_the_nearest_ones_of_the_span(way, n_classes):
    X, y = rows_and_labels(1, n_classes, n=80)
    machine = dm.SVMClassifier(0.3, gamma=0.2, multi_class=way).fit(X, y)
    small, report = dm.compress(machine, 0.3)
    before, after = plain_machine(machine), plain_machine(small)
    pairs = [(a, b) for a in range(n_classes) for b in range(a + 1, n_classes)]
    squares = []
    for q in range(len(before.coefficients)):
        uses = np.ones(len(after.vectors), dtype=bool)
        if before.pair_scores is not None:
            uses = np.isin(np.repeat(np.arange(n_classes), small.n_support_), pairs[q])
        span = after.vectors[uses]
        wanted = rbf_kernel(span, before.vectors, 0.2) @ before.coefficients[q]
        best = np.linalg.solve(rbf_kernel(span, span, 0.2), wanted)
        np.testing.assert_allclose(after.coefficients[q, uses], best, atol=1e-6)
        difference = np.concatenate([before.coefficients[q], -after.coefficients[q]])
        both = np.vstack([before.vectors, after.vectors])
        squares.append(difference @ rbf_kernel(both, both, 0.2) @ difference)
    assert report["bound"] == pytest.approx(np.sqrt(max(squares)), rel=1e-5)


def test_vectors_are_chosen_better_than_by_chance():
    X, y = rows_and_labels(2, 2, n=300)
    machine = dm.SVMClassifier(1.0, gamma=0.3).fit(X, y)
    report = dm.compress(machine, 10)[1]
    before, rng, chance = plain_machine(machine), np.random.default_rng(0), []
    kernel = rbf_kernel(before.vectors, gamma=0.3)
    for _ in range(20):
        some = rng.choice(len(kernel), 10, replace=False)
        values = kernel @ before.coefficients[0]
        squared = (
            before.coefficients[0] @ values
            - values[some] @ np.linalg.lstsq(kernel[np.ix_(some, some)], values[some])[0]
        )
        chance.append(np.sqrt(squared))
    assert report["bound"] < min(chance)


def test_all_vectors_are_the_same_machine_and_can_be_saved(tmp_path):
    X, y = rows_and_labels(2, 3, n=100)
    model = make_pipeline(StandardScaler(), dm.ODMClassifier()).fit(X, y)
    same, report = dm.compress(model, len(model[-1].support_), X, y)
    assert report["largest_change"] < 1e-6 and report["accuracy_before"] == report["accuracy_after"]
    small, report = dm.compress(model, 5, X, y)
    assert report["accuracy_before"] == model.score(X, y) and report["accuracy_after"] == small.score(X, y)
    assert report["largest_change"] == np.abs(model.decision_function(X) - small.decision_function(X)).max() > 0
    dm.save(small, tmp_path / "small.dimargin")
    loaded = dm.load(tmp_path / "small.dimargin")
    assert (loaded.predict(X) == small.predict(X)).all() and loaded[-1].certificate_ == "before_compression"
    assert len(model[-1].support_) == len(same[-1].support_) > 5 == small[-1].n_support_.sum()
    assert model[-1].certificate_ == "global"  # The given model is left as it was.


def test_a_regressor_loses_as_much_as_is_measured():
    X, _ = rows_and_labels(2, 2, n=200)
    y = np.sin(X[:, 0]) + 5
    model = make_pipeline(StandardScaler(), dm.SVMRegressor(10.0)).fit(X, y)
    small, report = dm.compress(model, 20, X, y)
    assert report["kept"] == 20 == small[-1].n_support_[0] < report["support_vectors"] == model[-1].n_support_[0]
    assert (report["r2_before"], report["r2_after"]) == (model.score(X, y), small.score(X, y))
    assert report["largest_change"] == np.abs(model.predict(X) - small.predict(X)).max() <= report["bound"] + 1e-6
    assert report["r2_before"] - 0.5 < report["r2_after"] < report["r2_before"]


def test_what_cannot_be_compressed_is_named():
    X, y = rows_and_labels(0, 2)
    machine = dm.SVMClassifier().fit(X, y)
    for model in (
        dm.LinearSVMClassifier(),
        dm.SVMClassifier(kernel="linear"),
        CalibratedClassifierCV(machine, cv=2, ensemble=False),
        svm.SVC(),
        TransformedTargetRegressor(dm.SVMRegressor(), transformer=StandardScaler()),
    ):
        with pytest.raises(ValueError, match="cannot compress a linear or calibrated machine"):
            dm.compress(fitted(model, X, y), 2)
    for size, error in ((0, ValueError), (-0.5, ValueError), (1.5, TypeError), ("few", TypeError)):
        with pytest.raises(error, match="size must be a"):
            dm.compress(machine, size)
