"""The picture of a consensus on a core-set."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dimargin import CoreSetConsensusDisplay

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
    texts = [text.get_text() for text in above.get_legend().get_texts()]
    assert texts[-2:] == ["ball around all points", "1 + epsilon = 1.1"]


def test_axes_of_the_caller():
    figure, axes = plt.subplots(2)
    display = CoreSetConsensusDisplay.from_history(HISTORY, best=2.0, ax=axes)
    assert display.figure_ is figure and len(display.axes_[0].get_legend().get_texts()) == 4
    with pytest.raises(ValueError, match="ax must be 2 axes"):
        display.plot(axes[0])


def test_no_entry():
    with pytest.raises(ValueError, match="history must have entries with round, core_sets"):
        CoreSetConsensusDisplay.from_history(HISTORY[:1], best=1.0)
