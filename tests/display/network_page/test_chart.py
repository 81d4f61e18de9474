"""Charts: axes with round ticks, and points where their values belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimargin.display.network_page.chart import Axis, gap_chart, line_chart


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5))
def test_an_axis_includes_all_values_and_has_few_ticks(values):
    axis = Axis.for_values(values)
    assert 2 <= len(axis.ticks) <= 7 and axis.ticks[-1] == pytest.approx(axis.high)
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in values)


def test_ticks_are_round():
    assert Axis.for_values([0.0, 13.1]).ticks == [0.0, 5.0, 10.0, 15.0]
    assert line_chart([0.0, 9.0], [0.32, 0.36]).y_ticks[1][1] == "0.33"


def test_gaps_are_drawn_by_their_powers_of_ten():
    chart = gap_chart([0.0, 300.0, 600.0], [1.0, 0.01, 0.0001])
    assert [text for _, text in chart.y_ticks] == ["0.01%", "0.1%", "1%", "10%", "100%"]
    assert chart.lines[0] == [(0.0, 1.0), (0.5, pytest.approx(0.5)), (1.0, pytest.approx(0.0))]
    assert chart.unit == "minutes" and chart.x_ticks[-1] == (1.0, "10")


@pytest.mark.parametrize("gaps", [[0.0], [0.0, 1e300], [-1.0, 0.5], [0.1, 0.1]])
def test_any_gaps_can_be_drawn(gaps):
    chart = gap_chart([0.0] * len(gaps), gaps)
    assert all(0 <= y <= 1 for _, y in chart.lines[0])


def test_two_lines_share_their_axis():
    chart = line_chart([1.0, 2.0], [2.0, 2.0], [0.0, 1.0])
    assert [[y for _, y in line] for line in chart.lines] == [[1.0, 1.0], [0.0, 0.5]]
