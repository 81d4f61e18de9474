"""Plot of the candidates of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.search import counted_entries
from dimargin.system.arrays import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class TuningDisplay:
    """Scores of the candidates of successive halving against two of their parameters.

    A cell shows the best candidate with these two values: its score in percent in its last round,
    and the number of this round. Later rounds are darker, because earlier ones score on fewer rows
    and are not comparable; within a round, better scores are darker. A frame marks the chosen
    candidate. A last round that was cut short is left out, because the choice does not use it.

    All parameters are stored as attributes.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_columns)
        NaN if no candidate has these values.
    rounds : ndarray of shape (n_rows, n_columns)
        Last round of each candidate.
    row_values, column_values : list
        Values of the parameters.
    row_name, column_name : str
    best : tuple of int or None
        Row and column of the chosen candidate.
    score_name : str, default="accuracy"

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_ : matplotlib AxesImage

    Examples
    --------
    >>> from dimargin import ODMClassifierCV, TuningDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> search = ODMClassifierCV(param_grid={"gamma": [0.5, 2], "lam": [1e3, 1e5]}, random_state=0).fit(X, y)
    >>> display = TuningDisplay.from_estimator(search)
    >>> display.scores.shape, display.row_name, display.column_name
    ((2, 2), 'gamma', 'lam')
    """

    scores: Floats
    rounds: NDArray[np.int64]
    row_values: list[Any]
    column_values: list[Any]
    row_name: str
    column_name: str
    best: tuple[int, int] | None = None
    score_name: str = "accuracy"

    def plot(self, ax: Any = None) -> Self:
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt
        from matplotlib.patches import Rectangle

        n_rows, n_columns = self.scores.shape
        if ax is None:
            size = (max(4.5, 1.6 + 0.9 * n_columns), max(2.2, 1.3 + 0.5 * n_rows))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        # Shades follow ranks, because good scores are close together and bad ones are far apart.
        known = np.isfinite(self.scores)
        shades = np.full(self.scores.shape, np.nan)
        pairs = np.column_stack([self.rounds[known], self.scores[known].round(4)])
        order = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        shades[known] = order / max(order.max(initial=0), 1)
        self.image_ = ax.imshow(np.ma.masked_invalid(shades), cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        for row, column in np.argwhere(known):
            text = f"{100 * self.scores[row, column]:.2f}\nround {self.rounds[row, column]}"
            color = "white" if shades[row, column] > 0.8 else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize="small", color=color)
        if self.best is not None:
            corner = self.best[1] - 0.48, self.best[0] - 0.48
            ax.add_patch(Rectangle(corner, 0.96, 0.96, fill=False, edgecolor="tab:orange", linewidth=2.5))
        ax.set_xticks(range(n_columns), [_label(value) for value in self.column_values])
        ax.set_yticks(range(n_rows), [_label(value) for value in self.row_values])
        ax.set(xlabel=self.column_name, ylabel=self.row_name)
        ax.set_title(f"{self.score_name}, %, and the last round;\ndarker: later, then better", fontsize="medium")
        return self

    @classmethod
    def from_estimator(
        cls, search: Any, *, rows: str | None = None, columns: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        search : SVMClassifierCV or ODMClassifierCV
            The fitted search.
        rows, columns : str, default=None
            Parameters on the axes; by default "gamma" and "lam" or "C", else those that vary most.
        ax : matplotlib Axes, default=None

        Returns
        -------
        TuningDisplay

        Raises
        ------
        NotFittedError
        ValueError
            If `rows` or `columns` is not a parameter of the grid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(search, "cv_results_")
        tried = search.cv_results_["params"]
        rows, columns = _axes(tried, rows, columns)
        values = [_different([given[name] for given in tried if name in given]) for name in (rows, columns)]

        def position(given: dict[str, Any]) -> tuple[int, int] | None:
            there = rows in given and columns in given
            return (values[0].index(given[rows]), values[1].index(given[columns])) if there else None

        scores = np.full([len(some) for some in values], np.nan)
        rounds = np.zeros(scores.shape, dtype=np.int64)
        for index in counted_entries(search):
            at = position(tried[index])
            score, number = (search.cv_results_[name][index] for name in ("mean_test_score", "round"))
            if at is not None and (number > rounds[at] or not score <= scores[at]):
                scores[at], rounds[at] = score, number
        scoring = search.scoring
        name = "accuracy" if scoring is None else scoring if isinstance(scoring, str) else "score"
        axes: dict[str, Any] = {"row_values": values[0], "column_values": values[1], "row_name": rows}
        axes |= {"column_name": columns, "best": position(search.best_params_), "score_name": name}
        display = cls(scores=scores, rounds=rounds, **axes)
        return display.plot(ax)


def _axes(tried: list[dict[str, Any]], rows: str | None, columns: str | None) -> tuple[str, str]:
    """Return the given parameters, by default gamma and lam or C, else those that vary most."""
    names = list(dict.fromkeys(name for given in tried for name in given))
    for name in (rows, columns):
        if name is not None and name not in names:
            raise ValueError(f"rows and columns must be parameters of the grid, {', '.join(names)}, got {name!r}")
    most = sorted(names, key=lambda name: -len({str(given.get(name)) for given in tried}))
    columns = columns or next(
        name for name in ("lam", "C", *most) if name in names and (name != rows or len(names) == 1)
    )
    rows = rows or next(name for name in ("gamma", *most) if name in names and (name != columns or len(names) == 1))
    return rows, columns


def _different(values: list[Any]) -> list[Any]:
    """Return the distinct values: sorted numbers, then others such as strings."""
    numbers = sorted({value for value in values if _is_number(value)})
    return [*numbers, *{str(value): value for value in values if not _is_number(value)}.values()]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _label(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)
