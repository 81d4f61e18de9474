"""The picture of a consensus on a core-set."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dimargin import CoreSetConsensusDisplay, CoreSetSVDD, OneClassCoreSetSVM

HISTORY = [
    {"round": 0, "core_sets": 1},
    {"round": 1, "core_sets": 3, "radius_min": 0.0, "radius_mean": 1.0, "radius_max": 1.0, "farthest": 4.0},
    {"round": 2, "core_sets": 1, "radius_min": 2.0, "radius_mean": 2.0, "radius_max": 2.0, "farthest": 2.1},
]


def test_what_is_drawn():
    display = CoreSetConsensusDisplay.from_history(HISTORY, best=2.0, epsilon=0.1)
    above, below = display.axes_
    np.testing.assert_allclose(above.lines[0].get_ydata(), [0.5, 1.0])
    np.testing.assert_allclose(above.lines[1].get_ydata(), [2.0, 1.05])
    np.testing.assert_allclose(below.lines[0].get_xydata(), [[1, 3], [2, 1]])
    heights = above.collections[0].get_paths()[0].get_extents()
    assert (heights.ymin, heights.ymax) == (0.0, 1.0)
    display.figure_.draw_without_rendering()
    numbers = [text.get_text() for text in below.get_yticklabels("minor")]
    assert {"2", "3"} <= set(numbers) and not any("10" in number for number in numbers)
    texts = [text.get_text() for text in above.get_legend().get_texts()]
    assert texts[-2:] == ["ball around all points", "1 + epsilon = 1.1"]


def test_axes_of_the_caller():
    figure, axes = plt.subplots(2)
    display = CoreSetConsensusDisplay.from_history(HISTORY, best=2.0, ax=axes)
    assert display.figure_ is figure and len(display.axes_[0].get_legend().get_texts()) == 4
    with pytest.raises(ValueError, match="ax must be 2 axes"):
        display.plot(axes[0])


@pytest.mark.parametrize("C", [1.0, float("inf")])
def test_the_history_of_a_detector_of_several_sites(C):
    X = np.random.default_rng(0).normal(size=(60, 2))
    detector = CoreSetSVDD(C=C, gamma=0.5, n_sites=3, topology="ring", random_state=0).fit(X)
    display = CoreSetConsensusDisplay.from_estimator(make_pipeline(StandardScaler(), detector).fit(X)[-1:])
    (alone,) = [CoreSetSVDD(C=C, gamma=0.5, random_state=0).fit(StandardScaler().fit_transform(X))]
    assert display.best**2 == pytest.approx(alone.objective_, rel=2e-3)
    np.testing.assert_allclose(display.axes_[0].lines[0].get_ydata()[-1], 1.0, rtol=1e-6)
    assert (np.diff(display.radius_mean) >= -1e-9).all() and display.core_sets[-1] == 1
    assert (display.farthest[-1] > 1.01 * display.best) == (C == 1.0), "softness lets points stay outside"


def test_what_has_no_radii():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(TypeError, match="n_sites above one, got a CoreSetSVDD with n_sites=1"):
        CoreSetConsensusDisplay.from_estimator(CoreSetSVDD().fit(X))
    with pytest.raises(TypeError, match="got a OneClassCoreSetSVM with n_sites=2"):
        CoreSetConsensusDisplay.from_estimator(OneClassCoreSetSVM(n_sites=2).fit(X))
    with pytest.raises(TypeError, match="got a SVC"):
        CoreSetConsensusDisplay.from_estimator(SVC().fit(X, X[:, 0] > 0))
    with pytest.raises(NotFittedError):
        CoreSetConsensusDisplay.from_estimator(CoreSetSVDD())


def test_lines_stand_out_in_a_dark_style():
    with plt.style.context("dark_background"):
        display = CoreSetConsensusDisplay.from_history(HISTORY, best=2.0, epsilon=0.1)
        colors = [line.get_color() for line in display.axes_[0].lines[2:]]
        assert colors == ["white", "white"]


def test_no_entry():
    with pytest.raises(ValueError, match="history must have entries with round, core_sets"):
        CoreSetConsensusDisplay.from_history(HISTORY[:1], best=1.0)
