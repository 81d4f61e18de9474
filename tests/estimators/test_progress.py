"""The way of a gap to its tolerance."""

import math

import pytest

from dimargin.estimators.progress import GapWay


@pytest.mark.parametrize(
    ("tol", "gaps", "expected"),
    [
        (1e-3, [1.0, 0.1, 0.01, 1e-3, 1e-9], [0, 1 / 3, 2 / 3, 1, 1]),
        (1e-3, [1e5, 10.0, 1e-3], [0, 0.5, 1]),  # from the first gap that is known
        (1e-2, [math.nan, math.inf, 1.0, math.nan, 0.1, 0.5, 0.0], [0, 0, 0, 0, 0.5, 0.5, 1]),
        (1e-3, [1e-5, 1.0], [1, 1]),
        (2.0, [1.0], [1]),
    ],
)
def test_the_way_is_logarithmic_and_is_never_shortened(tol, gaps, expected):
    way = GapWay(tol)
    assert [way.update(gap) for gap in gaps] == pytest.approx(expected)
