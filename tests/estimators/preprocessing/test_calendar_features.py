"""Dates as numbers, beside Python's own calendar."""

import math
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init, check_parameters_default_constructible

from dimargin.estimators.preprocessing import CalendarFeatures

moments = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1))


def by_hand(moment):
    """Days since 1970, and angles in the year, the week and the day, by Python's calendar."""
    begin, end = datetime(moment.year, 1, 1), datetime(moment.year + 1, 1, 1)
    turns = [(moment - begin) / (end - begin), moment.weekday() / 7]
    turns.append((moment - datetime.combine(moment.date(), datetime.min.time())) / timedelta(days=1))
    waves = [wave(2 * math.pi * turn) for turn in turns for wave in (math.sin, math.cos)]
    return [(moment - datetime(1970, 1, 1)) / timedelta(days=1), *waves]


@given(st.lists(moments, min_size=1, max_size=5))
def test_features_are_those_of_the_calendar(times):
    features = CalendarFeatures().fit([["2026-11-24 18:30"]])  # with times of the day
    expected = [by_hand(moment) for moment in times]
    for column in ([[t.isoformat()] for t in times], [[t] for t in times], np.array([times], "M8[us]").T):
        assert np.allclose(features.transform(column), expected, rtol=1e-12, atol=1e-6)


def test_a_column_of_dates_has_no_time_of_the_day():
    frame = pd.DataFrame({"born": ["24.12.1999", "29.02.2000"], "seen": pd.to_datetime(["2020-01-01 06:00", None])})
    born = CalendarFeatures("%d.%m.%Y").fit(frame[["born"]])
    assert born.get_feature_names_out().tolist() == [
        *("born_days", "born_year_sin", "born_year_cos", "born_week_sin", "born_week_cos")
    ]
    assert np.allclose(born.transform(frame[["born"]])[1], by_hand(datetime(2000, 2, 29))[:5])
    seen = CalendarFeatures().fit(frame[["seen"]])
    assert len(seen.get_feature_names_out()) == 7
    found = seen.transform(frame[["seen"]])
    assert found[1].tolist() == [found[0, 0], 0, 0, 0, 0, 0, 0]  # missing: the mean day, and no place in year and week


@pytest.mark.parametrize("missing", [None, "", np.nan, pd.NaT])
def test_missing_dates_are_the_mean(missing):
    X = np.array([["2020-01-01"], ["2020-01-03"], [missing]], dtype=object)
    days = (date(2020, 1, 2) - date(1970, 1, 1)).days
    assert CalendarFeatures().fit(X).transform(X)[2].tolist() == [days, 0, 0, 0, 0]


def test_times_with_a_zone_are_in_utc():
    features = CalendarFeatures().fit([["2020-01-01T12:00"]])
    assert np.array_equal(features.transform([["2020-01-01T12:00+02:00"]]), features.transform([["2020-01-01T10:00"]]))


def test_what_is_no_date_is_named():
    with pytest.raises(ValueError, match=r"column 'since' holds '24.12.99' \(row 1\).*ISO 8601"):
        CalendarFeatures().fit(pd.DataFrame({"since": ["1999-12-24", "24.12.99"]}))
    with pytest.raises(ValueError, match="column 'x1' has no dates"):
        CalendarFeatures().fit([["2020-01-01", ""], ["2020-01-01", None]])
    with pytest.raises(ValueError, match="which is not a date"):
        CalendarFeatures().fit([["0001-01-01T00:00+05:00"]])
    for format in ("", "%q", "%d%d", 3, "%d" * 100):
        with pytest.raises(ValueError, match="format must be 'iso'"):
            CalendarFeatures(format).fit([["2020-01-01"]])


def test_it_is_an_estimator():
    check_parameters_default_constructible("CalendarFeatures", CalendarFeatures())
    check_no_attributes_set_in_init("CalendarFeatures", CalendarFeatures())
