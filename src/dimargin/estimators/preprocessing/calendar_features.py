"""A scikit-learn transformer from dates and times to numbers."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.system.arrays import Floats

_ONE_DAY = np.timedelta64(1, "D")


class CalendarFeatures(TransformerMixin, BaseEstimator):
    """Transformer of dates and times to a time axis and positions in the year, week and day.

    Every column becomes its days since 1970-01-01, and the sine and cosine of its angle in the
    cycle of the year and of the week; a column with times also those in the cycle of the day.
    Adjacent days, such as the last of December and the first of January, therefore have similar
    features.

    Parameters
    ----------
    format : str, default="iso"
        Format of dates as text: "iso" for ISO 8601 (``2026-11-24``, ``2026-11-24 18:30``), or a
        format of `datetime.datetime.strptime`, such as "%d.%m.%Y". Zoned times become UTC.

    Attributes
    ----------
    days_ : ndarray of shape (n_features_in_,)
        Mean of each column, in days, which replaces missing dates; their sines and cosines are 0.
    has_times_ : ndarray of shape (n_features_in_,)
        Whether each column has a value with a time other than midnight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.

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
        """Compute the mean date of each column, and whether it has times.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Dates as text, `datetime` objects or ``datetime64``; None, NaN, NaT and "" are missing.
        y : ignored

        Raises
        ------
        ValueError
            If the format is invalid, a value is not such a date, or a column has no dates.
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
        """Compute the features of dates.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)

        Raises
        ------
        ValueError
            If a value is not a date in this format.
        """
        check_is_fitted(self)
        days = self._days(X, reset=False)
        return np.column_stack([part for k in range(days.shape[1]) for part in self._parts(days[:, k], k)])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: the name of the column and the kind of the feature."""
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
        # Three days before 1970-01-01 was a Monday.
        turns = [((dates - begin) / _ONE_DAY + days % 1) / ((end - begin) / _ONE_DAY), (np.floor(days) + 3) % 7 / 7]
        if self.has_times_[column]:
            turns.append(days % 1)
        waves = [wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos)]
        return [days, *(np.where(missing, 0.0, wave) for wave in waves)]

    def _days(self, X: Any, reset: bool) -> Floats:
        """Return days since 1970-01-01, with NaN for missing dates."""
        X = validate_data(self, X if hasattr(X, "shape") else np.asarray(X), reset=reset, skip_check_array=True)
        values = np.asarray(X)
        if values.dtype.kind == "M":
            days: Floats = (values - np.datetime64(0, "D")) / _ONE_DAY
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
        except (ValueError, OverflowError):  # Zones can overflow at the ends of the calendar.
            expected = "ISO 8601, such as 2026-11-24" if self.format == "iso" else self.format
            raise ValueError(
                f"column {self._name(column)!r} holds {value!r} (row {row}), which is not a date; expected {expected}"
            ) from None
        return float((np.datetime64(moment, "us") - np.datetime64(0, "D")) / _ONE_DAY)


def check_format(format: Any) -> None:
    """Raise ValueError unless the format can read dates."""
    example = datetime(2026, 11, 24, 18, 30)
    try:
        is_valid = format == "iso" or (
            "%" in format and len(format) <= 100 and datetime.strptime(example.strftime(format), format)
        )
    except (ValueError, TypeError, re.error):
        is_valid = False
    if not is_valid:
        raise ValueError(f"format must be 'iso' or a format of datetime.strptime such as '%d.%m.%Y', got {format!r}")


def _moment(value: Any, format: str) -> datetime:
    """Convert a date or time to UTC; raises ValueError if it is neither."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if isinstance(value, datetime):
        moment = value
    elif not isinstance(value, str):
        raise ValueError("not a date")
    else:
        moment = datetime.fromisoformat(value) if format == "iso" else datetime.strptime(value, format)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
