"""The picture of a gossip run: how well its sites do while they learn."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression

from dimargin import GossipSVMClassifier, PerformanceProfileDisplay
from dimargin.display.site_accuracies import accuracies_of_sites

X_ALL, Y_ALL = make_classification(900, 6, class_sep=0.8, random_state=1)
X, Y, X_TEST, Y_TEST = X_ALL[:600], Y_ALL[:600], X_ALL[600:], Y_ALL[600:]
RING = GossipSVMClassifier(n_sites=4, topology="ring", alpha=1e-2, shards="sorted", max_iter=40, random_state=0)

from_estimator = PerformanceProfileDisplay.from_estimator
from_history = PerformanceProfileDisplay.from_history
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def profile():
    """A run whose sites hold one class each, judged on other rows."""
    return from_estimator(RING, X, Y, X_test=X_TEST, y_test=Y_TEST)


def entries(**columns):
    defaults = {name: [0.6, 0.7, 0.8] for name in ("accuracy_min", "accuracy_mean", "accuracy_max")}
    values = {"round": [1, 2, 3], "seconds": [0.5, 1, 1.5], "bytes": [0, 10, 20], "partitions": [3, 3, 3]}
    values = values | defaults | columns
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def band(display, panel):
    """Indices, and lowest and highest value there."""
    x, y = display.bands_[panel].get_paths()[0].vertices.T
    return np.array([(index, y[x == index].min(), y[x == index].max()) for index in np.unique(x)])


def column(display, name):
    return np.array([entry[name] for entry in display.estimator_.history_])


def test_line_and_bands_are_the_history(profile):
    rounds = column(profile, "round")
    accuracy, objective = profile.lines_
    assert_array_equal(accuracy.get_xydata().T, [rounds, column(profile, "accuracy_mean")])
    assert_array_equal(objective.get_xydata().T, [rounds, column(profile, "objective")])
    for panel, low, high in ((0, "accuracy_min", "accuracy_max"), (1, "objective", "worst_objective")):
        assert_array_equal(band(profile, panel), np.transpose([rounds, column(profile, low), column(profile, high)]))
    assert [axes.get_ylabel() for axes in profile.axes_] == ["accuracy", "objective"]
    assert profile.axes_[-1].get_xlabel() == "round" and profile.axes_[0].get_xscale() == "log"
    assert legend(profile.axes_[0]) == ["mean of 4 sites", "worst site to best"]
    assert legend(profile.axes_[1]) == ["consensus of all sites", "up to the worst site"]


def test_accuracies_are_those_of_the_sites():
    local = clone(RING).set_params(gradient="local", step_size="pegasos", max_iter=8)
    display = from_estimator(local, X, Y, X_test=X_TEST, y_test=Y_TEST)
    machine, last = display.estimator_, display.estimator_.history_[-1]
    each = [np.mean((X_TEST @ w > 0) == Y_TEST) for w in machine.site_coef_]
    assert min(each) < np.mean(each) < max(each)
    assert [last[f"accuracy_{name}"] for name in ("min", "mean", "max")] == [min(each), np.mean(each), max(each)]
    assert not hasattr(local, "history_")


def test_of_averaged_machines_the_averages_are_judged():
    display = from_estimator(clone(RING).set_params(average=True), X, Y)
    machine = display.estimator_
    each = [np.mean((X @ w > 0) == Y) for w in machine.site_average_coef_]
    assert machine.history_[-1]["accuracy_mean"] == np.mean(each)
    assert np.mean(each) != np.mean([np.mean((X @ w > 0) == Y) for w in machine.site_coef_])


def test_many_classes():
    rows, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    display = from_estimator(clone(RING).set_params(fit_intercept=True), rows, names)
    machine, last = display.estimator_, display.estimator_.history_[-1]
    values = np.einsum("skf,nf->snk", machine.site_coef_, rows) + machine.site_intercept_[:, None]
    each = (machine.classes_[values.argmax(axis=2)] == names).mean(axis=1)
    assert last["accuracy_min"] == each.min() and last["accuracy_mean"] == each.mean()
    assert np.shape(last["objective"]) == (3,)
    assert_allclose(display.lines_[1].get_ydata()[-1], np.sum(last["objective"]))
    assert_allclose(display.worst_objective[-1], np.sum(last["worst_objective"]))


def test_bytes_and_seconds(profile):
    first, *others = profile.estimator_.history_
    display = from_history([{**first, "bytes": 0}, *others], x="bytes")
    sent = column(profile, "bytes")
    assert display.axes_[0].get_xscale() == "log"  # where nothing has no place
    assert_array_equal(display.lines_[0].get_xdata(), sent[1:])
    display.figure_.draw_without_rendering()
    assert display.axes_[-1].get_xlabel() == "bytes sent by all sites"
    assert any(text.get_text().endswith("kB") for text in display.axes_[-1].get_xticklabels())
    display = from_history(entries(), x="seconds")
    assert display.axes_[0].get_xscale() == "linear" and len(display.axes_) == 1
    assert_array_equal(display.lines_[0].get_xdata(), [0.5, 1, 1.5])


def test_runs_share_axes(profile):
    history = profile.estimator_.history_
    first = from_history(history, name="tracked", central_accuracy=0.9, central_objective=0.25)
    other = from_history(history, name="local", central_accuracy=0.9, ax=first.axes_, curve_kwargs={"ls": ":"})
    assert other.figure_ is first.figure_
    runs = ["tracked, mean of 4 sites", "local, mean of 4 sites", "worst site to best"]
    assert legend(first.axes_[0]) == [*runs, "centralised, 90.0%"]
    assert legend(first.axes_[1]) == ["consensus of all sites", "up to the worst site", "centralised, 0.25"]
    (a, _), (b, _) = first.lines_, other.lines_
    assert a.get_color() != b.get_color() and a.get_marker() != b.get_marker() and b.get_linestyle() == ":"
    assert_allclose(other.bands_[1].get_facecolor()[0][:3], plt.matplotlib.colors.to_rgb(b.get_color()))
    low, high = first.axes_[0].get_ylim()
    assert low < column(profile, "accuracy_min").min() and high <= 1.01


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"accuracy_max": [0.9] * 3, "objective": [3.0, 2.0, 1.0], "worst_objective": [4.0, 2.0, 1.0]}, [2, 2]),
        ({"objective": [3.0, 2.0, 1.0], "worst_objective": [3.0, 2.0, 1.0]}, [1, 1]),  # all sites are alike
        ({"accuracy_max": [0.9] * 3, "objective": [np.nan] * 3, "worst_objective": [np.nan] * 3}, [2, 0]),
    ],
)
def test_every_entry_of_a_legend_is_in_the_picture(columns, expected):
    display = from_history(entries(**columns), central_accuracy=0.99, central_objective=0.1)
    display.figure_.draw_without_rendering()
    for axes, count in zip(display.axes_, expected, strict=True):
        assert len(legend(axes)) == count + 1 and legend(axes)[-1].startswith("centralised")
        (central,) = [line.get_ydata()[0] for line in axes.lines if line.get_gid() == "central"]
        assert axes.get_ylim()[0] < central < axes.get_ylim()[1]
        shown = [line for line in axes.lines if line.get_gid() == "run" and np.isfinite(line.get_ydata()).any()]
        colors = [handle.get_color() for handle in axes.get_legend().get_lines()[:-1]]
        assert colors == [line.get_color() for line in shown], "the line of the legend looks as the one in the axes"


def test_one_entry_has_no_band():
    display = from_history(entries()[:1])
    assert legend(display.axes_[0]) == ["mean of 3 sites"]


def test_nothing_overlaps():
    display = from_history(
        entries(objective=[900.0, 2.0, 1.0], worst_objective=[1e3, 5.0, 1.5], accuracy_max=[1.0, 1.0, 1.0]),
        name="the paper's local gradients", central_accuracy=0.9, central_objective=0.25,
    )  # fmt: skip
    from_history(
        entries(objective=[900.0, 2.0, 1.0], worst_objective=[1e3, 5.0, 1.5]),
        name="tracked gradients",
        ax=display.axes_,
    )
    assert display.axes_[0].get_ylim()[1] <= 1.01 and display.axes_[1].get_yscale() == "log"
    figure = display.figure_
    figure.draw_without_rendering()
    upper, lower = (axes.get_window_extent() for axes in display.axes_)
    legends = [axes.get_legend().get_window_extent() for axes in display.axes_]
    assert not any(box.overlaps(other) for box in legends for other in (upper, lower))
    assert not legends[0].overlaps(legends[1])
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in legends)


def test_accuracies_of_any_classes():
    classes = np.array(["a", "b", "c"])
    accuracies = accuracies_of_sites(np.eye(3), ["a", "b", "c"], classes)
    weights = np.array([np.eye(3), np.roll(np.eye(3), 1, axis=0)])
    assert_array_equal(accuracies(weights), [1, 0])
    intercepts = np.array([[[0.0], [5.0], [0.0]]] * 2)  # all rows are b
    assert_allclose(accuracies(np.concatenate([weights, intercepts], axis=2)), [1 / 3, 1 / 3])
    with pytest.raises(ValueError, match=r"labels must be among the classes \['a', 'b', 'c'\], got \['d'\] too"):
        accuracies_of_sites(np.eye(3), ["a", "d", "c"], classes)


def test_clear_errors(profile):
    history = profile.estimator_.history_
    with pytest.raises(ValueError, match="x must be 'round' or 'seconds' or 'bytes', got 'messages'"):
        from_history(history, x="messages")
    plain = [{key: value for key, value in entry.items() if "accuracy" not in key} for entry in history]
    with pytest.raises(ValueError, match=r"history must have entries with round, .* got entries without accuracy_min"):
        from_history(plain)
    with pytest.raises(ValueError, match=r"history must have entries with round, .*; got no entries"):
        from_history([])
    with pytest.raises(ValueError, match=r"ax must be 2 axes \(accuracy, objective\), got 1"):
        from_history(history, ax=plt.gca())
    with pytest.raises(TypeError, match="estimator must be a GossipSVMClassifier, got a LogisticRegression"):
        from_estimator(LogisticRegression(), X, Y)
    with pytest.raises(ValueError, match="X_test and y_test must be given together"):
        from_estimator(RING, X, Y, X_test=X)


def test_matplotlib_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"PerformanceProfileDisplay\.from_history requires matplotlib"):
        from_history(entries())
