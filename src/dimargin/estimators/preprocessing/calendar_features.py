"""Dates and times as numbers."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.system.arrays import Floats

_DAY = np.timedelta64(1, "D")
_LONGEST = 100  # letters of a format
_MONDAY = 3  # days from a Monday to 1970-01-01


class CalendarFeatures(TransformerMixin, BaseEstimator):
    """Dates and times as numbers that a kernel can compare: how long ago, and where in the year, week and day.

    Every column becomes its days since 1970-01-01, and the sine and cosine of the angle at which it stands in its year
    and in its week; a column with times of the day also those of the angle in the day. Days that are near each other in
    the year, such as the last of December and the first of January, are so near in these.

    Parameters
    ----------
    format : str, default="iso"
        Of dates that are text: "iso" for ISO 8601 (``2026-11-24``, ``2026-11-24 18:30``), or as in
        `datetime.datetime.strptime`, such as "%d.%m.%Y". Times with a zone are taken in UTC.

    Attributes
    ----------
    days_ : ndarray of shape (n_features_in_,)
        Mean of each column, in days since 1970-01-01, which stands for missing dates. Their angles are (0, 0), the
        centre of the circle.
    has_times_ : ndarray of shape (n_features_in_,)
        Whether a value of the column was not midnight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where the input has some.

    Examples
    --------
    >>> from dimargin.estimators.preprocessing import CalendarFeatures
    >>> dates = [["2026-11-23"], ["2026-12-31"], ["2027-01-01"]]
    >>> features = CalendarFeatures().fit(dates)
    >>> features.get_feature_names_out().tolist()
    ['x0_days', 'x0_year_sin', 'x0_year_cos', 'x0_week_sin', 'x0_week_cos']
    >>> features.transform(dates).round(2).tolist()[0]
    [20780.0, -0.62, 0.78, 0.0, 1.0]
    """

    def __init__(self, format: str = "iso") -> None:
        self.format = format

    def fit(self, X: Any, y: Any = None) -> Self:
        """Take note of the mean date of each column, and of whether it has times of the day.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Dates as text, `datetime` objects or ``datetime64``; None, NaN, NaT and empty text are missing.
        y : ignored

        Raises
        ------
        ValueError
            For a text that is no date of this format, a format that is none, and a column without any date.
        """
        check_format(self.format)
        days = self._days(X, reset=True)
        empty = np.isnan(days).all(axis=0)
        if empty.any():
            raise ValueError(f"column {self._name(int(empty.argmax()))!r} has no dates")
        self.days_ = np.nanmean(days, axis=0)
        self.has_times_: NDArray[np.bool_] = np.any(np.nan_to_num(days % 1), axis=0)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the features of dates.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)

        Raises
        ------
        ValueError
            For a text that is no date of this format.
        """
        check_is_fitted(self)
        days = self._days(X, reset=False)
        return np.column_stack([part for k in range(days.shape[1]) for part in self._parts(days[:, k], k)])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: those of the columns with what each is."""
        check_is_fitted(self)
        names = []
        for k in range(self.n_features_in_):
            cycles = ("year", "week", "day") if self.has_times_[k] else ("year", "week")
            parts = ["days", *(f"{cycle}_{function}" for cycle in cycles for function in ("sin", "cos"))]
            names += [f"{self._name(k)}_{part}" for part in parts]
        return np.array(names, dtype=object)

    def _name(self, column: int) -> str:
        return str(self.feature_names_in_[column]) if hasattr(self, "feature_names_in_") else f"x{column}"

    def _parts(self, days: Floats, column: int) -> list[Floats]:
        missing = np.isnan(days)
        days = np.where(missing, self.days_[column], days)
        dates = (np.floor(days).astype(np.int64)).astype("M8[D]")
        year = dates.astype("M8[Y]")
        begin, end = year.astype("M8[D]"), (year + 1).astype("M8[D]")
        turns = [((dates - begin) / _DAY + days % 1) / ((end - begin) / _DAY), (np.floor(days) + _MONDAY) % 7 / 7]
        if self.has_times_[column]:
            turns.append(days % 1)
        waves = [wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos)]
        return [days, *(np.where(missing, 0.0, wave) for wave in waves)]

    def _days(self, X: Any, reset: bool) -> Floats:
        """Return days since 1970-01-01, NaN for what is missing."""
        X = validate_data(self, X if hasattr(X, "shape") else np.asarray(X), reset=reset, skip_check_array=True)
        values = np.asarray(X)
        if values.dtype.kind == "M":
            days: Floats = (values - np.datetime64(0, "D")) / _DAY
            return days
        days = np.full(values.shape, np.nan)
        for k in range(values.shape[1]):
            known: dict[Any, float] = {}
            for row, value in enumerate(values[:, k].tolist()):
                if value is None or value == "" or value != value:
                    continue
                if value not in known:
                    known[value] = self._day(value, k, row)
                days[row, k] = known[value]
        return days

    def _day(self, value: Any, column: int, row: int) -> float:
        try:
            moment = _moment(value, self.format)
        except (ValueError, OverflowError):  # the latter of a zone at the ends of the calendar
            expected = "ISO 8601, such as 2026-11-24" if self.format == "iso" else self.format
            raise ValueError(
                f"column {self._name(column)!r} holds {value!r} (row {row}), which is no date; {expected} expected"
            ) from None
        return float((np.datetime64(moment, "us") - np.datetime64(0, "D")) / _DAY)


def check_format(format: Any) -> None:
    """Raise ValueError unless dates can be read in this format."""
    example = datetime(2026, 11, 24, 18, 30)
    try:
        sound = format == "iso" or (
            "%" in format and len(format) <= _LONGEST and datetime.strptime(example.strftime(format), format)
        )
    except (ValueError, TypeError, re.error):
        sound = False
    if not sound:
        raise ValueError(f"format must be 'iso' or one of datetime.strptime such as '%d.%m.%Y', got {format!r}")


def _moment(value: Any, format: str) -> datetime:
    """Return a moment in UTC; raises ValueError for what is none."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if isinstance(value, datetime):
        moment = value
    elif not isinstance(value, str):
        raise ValueError("no date")
    else:
        moment = datetime.fromisoformat(value) if format == "iso" else datetime.strptime(value, format)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
