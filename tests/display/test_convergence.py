import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from dimargin import DiODM, ODMClassifier, SVMClassifier
from dimargin.display import ConvergenceDisplay
from dimargin.estimators.callbacks import LevelScores

# quarters above 512 rows, so that the gap of every level is more than rounding
X_ALL, Y_ALL = make_moons(2800, noise=0.3, random_state=0)
X, Y, X_TEST, Y_TEST = X_ALL[:2400], Y_ALL[:2400], X_ALL[2400:], Y_ALL[2400:]
TREE = ODMClassifier(strategy=DiODM(early_stop=False), branching=2, n_levels=2, random_state=0)

from_estimator = ConvergenceDisplay.from_estimator


def level_scores(*data, **parameters):
    """Scores, where there are callbacks."""
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")
    return LevelScores(*data, **parameters)


@pytest.fixture(scope="module")
def tree():
    """A fit of three levels and the scores of its levels."""
    scores = level_scores(X_TEST, Y_TEST)
    return ODMClassifier(**TREE.get_params(deep=False)).set_callbacks(scores).fit(X, Y), scores


@pytest.fixture(scope="module")
def exact():
    """A fit of one level with many checks of the gap."""
    scores = level_scores(X_TEST, Y_TEST)
    return ODMClassifier(strategy="exact", tol=1e-2, random_state=0).set_callbacks(scores).fit(X, Y), scores


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def discs(axes, gid):
    return [line.get_xydata()[0] for line in axes.lines if line.get_gid() == gid]


def column(machine, key):
    return np.array([entry[key] for entry in machine.history_])


@pytest.mark.parametrize("strategy", ["dc", "cascade"])
def test_clusters_and_cascades(strategy):
    scores = level_scores(X_TEST, Y_TEST)
    machine = SVMClassifier(strategy=strategy, n_levels=1, random_state=0).set_callbacks(scores).fit(X, Y)
    display = from_estimator(machine, scores=scores)
    # rounds of a cascade are entries of level 0
    assert [len(discs(display.axes_[-1], gid)) for gid in ("partitioned", "global")] == [1, 1]
    assert len(display.axes_) == 3


@pytest.mark.parametrize("x", ["seconds", "kernel_evaluations"])
@pytest.mark.parametrize("fit", ["tree", "exact"])
def test_lines_are_the_history_against_its_summed_cost(fit, x, request):
    machine, scores = request.getfixturevalue(fit)
    display = from_estimator(machine, x=x, scores=scores)
    cost = np.cumsum(column(machine, x)) / (2400**2 if x == "kernel_evaluations" else 1)
    score, objective, gap = display.lines_
    np.testing.assert_allclose(objective.get_xydata().T, [cost, column(machine, "objective")], rtol=1e-12)
    np.testing.assert_allclose(gap.get_xydata().T, [cost, column(machine, "relative_gap")], rtol=1e-12)
    ends = [0, 1, 2] if fit == "tree" else [-1]
    expected = [entry["score"] for entry in scores.scores_]
    np.testing.assert_allclose(score.get_xydata().T, [cost[ends], expected], rtol=1e-12)
    assert len(machine.history_) >= 3 and display.axes_[-1].get_yscale() == "log"
    assert display.axes_[-1].get_xlabel() == {"seconds": x, "kernel_evaluations": "kernel evaluations / n²"}[x]
    assert [axes.get_ylabel() for axes in display.axes_] == ["accuracy", "objective", "relative gap"]


def test_the_scope_of_every_level_is_drawn(tree):
    machine, scores = tree
    display = from_estimator(machine, scores=scores, name="DiODM")
    assert legend(display.axes_[0]) == ["DiODM, level 2: 4 partitions, 1: 2, 0: whole problem"]
    assert legend(display.axes_[1]) == ["of the partitions", "whole problem"]
    assert legend(display.axes_[2]) == ["worst partition", "whole problem", "tol 0.001"]
    cost, gaps = np.cumsum(column(machine, "seconds")), column(machine, "relative_gap")
    np.testing.assert_allclose(discs(display.axes_[2], "partitioned"), np.c_[cost, gaps][:2])
    np.testing.assert_allclose(discs(display.axes_[2], "global"), np.c_[cost, gaps][2:])
    for axes in display.axes_:
        assert [text.get_text() for text in axes.texts] == ["2", "1", "0"]


def test_one_level_is_a_solid_line_with_one_disc(exact):
    display = from_estimator(exact[0])
    assert len(display.axes_) == 2
    assert legend(display.axes_[0]) == ["ODMClassifier, level 0: whole problem"]
    assert legend(display.axes_[1]) == ["tol 0.01"]
    assert [line.get_linestyle() for line in display.lines_] == ["-", "-"]
    assert [text.get_text() for text in display.axes_[1].texts] == ["0"]
    np.testing.assert_allclose(
        display.axes_[1].texts[0].xy[1], exact[0].duality_gap_, rtol=1e-3
    )  # which has the rounding of the objective, too


def test_fits_share_axes(tree, exact):
    display = from_estimator(tree[0], scores=tree[1], name="tree")
    other = from_estimator(exact[0], scores=exact[1], name="exact", ax=display.axes_)
    assert other.figure_ is display.figure_
    assert [text.split(",")[0] for text in legend(display.axes_[0])] == ["tree", "exact"]
    assert legend(display.axes_[2]) == ["worst partition", "whole problem", "tol 0.001", "tol 0.01"]
    assert display.lines_[0].get_color() != other.lines_[0].get_color()


def test_axes_reach_from_zero_to_the_longest_fit():
    display = plain(seconds=[1, 2]).plot()
    assert -1 < display.axes_[0].get_xlim()[0] < 0
    plain(seconds=[5, 9]).plot(display.axes_)
    for axes in plain(seconds=[3, 4]).plot(display.axes_).axes_:
        assert axes.get_xlim()[0] < 0 and 9 < axes.get_xlim()[1] < 10


def test_objectives_of_many_classes_are_summed():
    rows, labels = load_digits(n_class=4, return_X_y=True)
    machine = ODMClassifier(strategy="diodm", n_levels=1, random_state=0).fit(rows, labels)
    display = from_estimator(machine)
    expected = [np.sum(entry["objective"]) for entry in machine.history_]
    assert np.shape(machine.history_[0]["objective"]) == (4,)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), expected)


def test_the_machine_inside_a_search_over_a_pipeline():
    pipeline = make_pipeline(MinMaxScaler(), ODMClassifier())
    search = GridSearchCV(pipeline, {"odmclassifier__lam": [64]}, cv=2).fit(X[:100], Y[:100])
    display = from_estimator(search)
    expected = column(search.best_estimator_[-1], "relative_gap")
    np.testing.assert_allclose(display.relative_gap, expected)
    assert display.lines_[0].get_label().startswith("ODMClassifier, ")


def test_named_scores_and_style():
    scores = level_scores(X_TEST, Y_TEST, scoring="roc_auc")
    machine = ODMClassifier(**TREE.get_params(deep=False)).set_callbacks(scores).fit(X, Y)
    display = from_estimator(machine, scores=scores, curve_kwargs={"c": "red", "ls": "--"})
    assert display.axes_[0].get_ylabel() == "roc_auc"
    assert {line.get_color() for line in display.lines_} == {"red"}
    assert {line.get_linestyle() for line in display.lines_} == {"--"}


def plain(**arrays):
    defaults = {"level": [0, 0], "partitions": [1, 1], "seconds": [1, 2], "kernel_evaluations": [10, 30]}
    values = defaults | {"objective": [500.0, 3.0], "relative_gap": [1.0, 0.0]} | arrays
    return ConvergenceDisplay(**{name: np.array(value) for name, value in values.items()})


def test_plain_arrays_with_a_gap_of_zero_and_a_wide_objective():
    display = plain().plot(x="kernel_evaluations")
    assert display.axes_[0].get_yscale() == "log"
    assert display.axes_[1].get_xlabel() == "kernel evaluations"
    np.testing.assert_array_equal(display.lines_[1].get_xydata(), [[10, 1], [30, np.finfo(float).eps]])


def tick_labels(axes):
    axes.figure.canvas.draw()
    low, high = axes.get_ylim()
    texts = [text.get_text() for text in axes.get_yticklabels()]
    return {at: text for at, text in zip(axes.get_yticks(), texts, strict=True) if low <= at <= high}


@pytest.mark.parametrize(("tol", "end"), [(1e-3, 1e-4), (5e-3, 1e-4), (1e-8, 1e-9)])
def test_the_axis_of_the_gap_ends_a_power_of_ten_below_the_tolerance(tol, end):
    display = plain(relative_gap=[0.5, 1e-18], tol=tol).plot()
    np.testing.assert_allclose(display.lines_[1].get_ydata(), [0.5, end])
    low, high = display.axes_[1].get_ylim()
    assert end / 100 < low < end and 0.5 < high < 50
    labels = tick_labels(display.axes_[1])
    assert [np.isclose(at, end) for at, text in labels.items() if "leq" in text] == [True]
    assert min(labels) == pytest.approx(end) and len(labels) >= 2


def test_gaps_of_another_fit_end_where_its_own_tolerance_says():
    display = plain(relative_gap=[1.0, 1e-17], tol=1e-3).plot()
    plain(relative_gap=[1.0, 1e-17], tol=1e-6).plot(display.axes_)
    ends = [line.get_ydata()[-1] for line in display.axes_[1].lines if line.get_gid() == "fit"]
    np.testing.assert_allclose(ends, [1e-4, 1e-7])
    assert 1e-9 < display.axes_[1].get_ylim()[0] < 1e-7
    assert sum("leq" in text for text in tick_labels(display.axes_[1]).values()) >= 1


def note(axes):
    return axes.get_legend().get_title().get_text()


def test_an_objective_that_rises_with_the_levels_is_explained(tree):
    machine, scores = tree
    ends = column(machine, "objective")
    assert ends[0] < ends[1], "parts of a quarter of the rows fit them at a lower objective"
    display = from_estimator(machine, scores=scores)
    assert "each level is a different problem" in note(display.axes_[1])
    assert not note(display.axes_[0]) and not note(display.axes_[2])
    falling = plain(level=[1, 0], partitions=[2, 1]).plot()
    assert not note(falling.axes_[0])


@pytest.mark.parametrize("values", [[np.nan, 1.0], [np.nan, np.nan], [np.inf, 2.0]])
def test_values_that_are_not_finite_are_left_out(values):
    display = plain(objective=values, relative_gap=values, tol=1e-3).plot()
    display.figure_.canvas.draw()
    assert all(np.isfinite(axes.get_ylim()).all() for axes in display.axes_)


def test_no_legend_lies_on_its_axes_and_all_are_in_the_picture(tree):
    display = from_estimator(tree[0])
    display.figure_.canvas.draw()
    for axes in display.axes_:
        legend, panel = axes.get_legend().get_window_extent(), axes.get_window_extent()
        assert legend.y0 >= panel.y1 - 1
        assert legend.x1 <= display.figure_.bbox.x1 and legend.y1 <= display.figure_.bbox.y1


@pytest.mark.parametrize("look", ["default", "dark_background"])
def test_discs_are_filled_with_the_color_of_the_style(look):
    with plt.style.context(look):
        display = plain(level=[1, 0], partitions=[2, 1]).plot()
        faces = [line.get_markerfacecolor() for line in display.axes_[0].lines if line.get_gid() == "partitioned"]
        assert all(same_color(face, plt.rcParams["axes.facecolor"]) for face in faces) and faces


def test_clear_errors(tree, exact):
    machine, scores = tree
    with pytest.raises(ValueError, match="x must be 'seconds' or 'kernel_evaluations', got 'passes'"):
        from_estimator(machine, x="passes")
    with pytest.raises(NotFittedError):
        from_estimator(ODMClassifier())
    with pytest.raises(TypeError, match="must have a history_; SVC has none"):
        from_estimator(SVC().fit(X[:50], Y[:50]))
    with pytest.raises(ValueError, match=r"levels \[0\], got scores of levels \[2, 1, 0\]"):
        from_estimator(exact[0], scores=scores)
    with pytest.raises(ValueError, match=r"levels \[2, 1, 0\], got scores of levels \[\]"):
        from_estimator(machine, scores=level_scores(X, Y))
    with pytest.raises(ValueError, match=r"ax must be 3 axes \(accuracy, objective, relative gap\), got 2"):
        from_estimator(machine, scores=scores, ax=from_estimator(machine).axes_)


def test_matplotlib_is_asked_for(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"ConvergenceDisplay\.from_estimator requires matplotlib"):
        from_estimator(tree[0])


def test_of_landmarks_the_level_above_is_a_part_of_the_rows():
    X, y = make_moons(3000, noise=0.2, random_state=0)
    machine = ODMClassifier(strategy="landmark", n_landmarks=50, random_state=0).fit(X, y)
    display = ConvergenceDisplay.from_estimator(machine)
    texts = [text.get_text() for axes in display.axes_ for text in axes.get_legend().get_texts()]
    assert texts.count("part of the rows") == 2 and "worst partition" not in texts
