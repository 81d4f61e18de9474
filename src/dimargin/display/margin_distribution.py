"""Plot of the margin distribution of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from dimargin.display.margin_values import WeightedMargins, margins_of
from dimargin.display.style import below
from dimargin.display.unwrap import innermost, uncalibrated
from dimargin.estimators.input_checks import sample_weights
from dimargin.system.arrays import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class MarginDistributionDisplay:
    """Cumulative distribution of margins on training and test rows.

    The margin of a row is ``y f(x)`` for two classes, else the decision value of the true class
    minus the largest other one. Margins at or below zero are errors. An Optimal margin Distribution
    Machine pulls all margins towards one: its margins have a high mean and a low variance, and the
    curve is steep.

    Decision values of different machines have different scales. ``normalize="mean"`` removes the
    scale by dividing by the mean training margin. If ``v`` is the training variance after this
    division, at most ``v / (1 + v)`` of the training rows are misclassified for any distribution
    (Cantelli's inequality).

    All parameters are stored as attributes.

    Parameters
    ----------
    margins : list of one or two ndarray of shape (n_samples,)
        Margins of the training rows, and of the test rows if there are any.
    weights : list of ndarray of shape (n_samples,), default=None
        Row weights of each set; None means equal weights.
    name : str, default=None
        Name of the machine in the legend.
    theta : float, default=None
        Half width of the band of margins around one without loss, shaded if given.
    multiclass : bool, default=False
        Whether the label of the axis describes the margin of more than two classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib Line2D of length n_sets
        Cumulative share of weight over the sorted margins.
    zero_ : matplotlib Line2D
        The vertical line at zero.
    band_ : matplotlib Rectangle or None
        The band from ``1 - theta`` to ``1 + theta``, scaled like the margins.
    mean_, variance_, error_ : ndarray of shape (n_sets,)
        Weighted mean and variance of the drawn margins, and the share of weight at or below zero.

    Examples
    --------
    >>> from dimargin import MarginDistributionDisplay, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> X, y, X_test, y_test = X[:200], y[:200], X[200:], y[200:]
    >>> odm, svm = ODMClassifier(lam=1e5, upsilon=0.3, theta=0.1).fit(X, y), SVC().fit(X, y)
    >>> options = {"X_test": X_test, "y_test": y_test, "normalize": "mean"}
    >>> ours = MarginDistributionDisplay.from_estimator(odm, X, y, **options)
    >>> theirs = MarginDistributionDisplay.from_estimator(svm, X, y, ax=ours.ax_, **options)
    >>> bool(ours.variance_[1] < theirs.variance_[1])
    True
    """

    margins: Sequence[Floats]
    weights: Sequence[Floats] | None = None
    name: str | None = None
    theta: float | None = None
    multiclass: bool = False

    def plot(
        self,
        ax: Any = None,
        *,
        normalize: Literal["mean"] | None = None,
        name: str | None = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the distributions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure. Several machines may share axes.
        normalize : {"mean"} or None, default=None
            "mean" divides all margins by the weighted mean training margin.
        name : str, default=None
            Defaults to the `name` of the display.
        curve_kwargs : dict, default=None
            Keyword arguments of matplotlib's ``plot`` for every curve.

        Returns
        -------
        self

        Raises
        ------
        ValueError, ImportError
            If `normalize` is invalid or the mean is not positive; if matplotlib is missing.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        weights = self.weights or [np.ones(len(m)) for m in self.margins]
        scale = self._scale(normalize, weights[0])
        sets = [WeightedMargins(m / scale, w) for m, w in zip(self.margins, weights, strict=True)]
        self.mean_, self.variance_, self.error_ = np.array([(s.mean, s.variance, s.error) for s in sets]).T
        if ax is None:
            _, ax = plt.subplots(figsize=(7.2, 5.2), layout="constrained")
        self.ax_, self.figure_, self.lines_, self.band_ = ax, ax.figure, [], None
        name = self.name if name is None else name
        style = normalize_kwargs(curve_kwargs or {}, Line2D)
        for i, margins in enumerate(sets):
            title = " ".join(filter(None, [name, ("train", "test")[i] if len(sets) > 1 else None]))
            # The line of the test rows, if there are any, is the prominent one.
            line, width = ("-", 1.8) if i + 1 == len(sets) else ("--", 1.2)
            look = {"linestyle": line, "linewidth": width, "drawstyle": "steps-post"}
            look["label"] = f"{title}: {margins}" if title else str(margins)
            self.lines_ += ax.plot(*margins.cumulative, **look | style)
            style.setdefault("color", self.lines_[0].get_color())
            ax.plot(0, margins.error, "o", markersize=4, color=style["color"])
        if self.theta is not None:
            edges = (1 - self.theta) / scale, (1 + self.theta) / scale
            label = f"{name or ''} $y\\,f(x)$ within 1 ± {self.theta:g}: no loss".lstrip()
            self.band_ = ax.axvspan(*edges, color=style["color"], alpha=0.12, linewidth=0, label=label)
        drawn = [line for line in ax.lines if line.get_gid() == "zero margin"]
        self.zero_ = drawn[0] if drawn else _zero_line(ax)
        definition = "value of the true class minus the largest other one" if self.multiclass else "$y\\,f(x)$"
        divided = ", divided by its mean on the training rows" if normalize else ""
        ax.set(xlabel=f"margin: {definition}{divided}", ylabel="share of rows with at most this margin")
        handles = [line for line in ax.get_legend_handles_labels()[0] if line is not self.zero_]
        ax.legend(handles=[*handles, self.zero_], **below(ax))
        return self

    def _scale(self, normalize: str | None, weights: Floats) -> float:
        if normalize is None:
            return 1.0
        if normalize != "mean":
            raise ValueError(f"normalize must be 'mean' or None, got {normalize!r}")
        mean = float(np.average(self.margins[0], weights=weights))
        if not mean > 0:
            raise ValueError(f"normalize='mean' needs training margins with a positive mean, got {mean:g}")
        return mean

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        X_test: Any = None,
        y_test: Any = None,
        sample_weight: Any = None,
        sample_weight_test: Any = None,
        normalize: Literal["mean"] | None = None,
        name: str | None = None,
        ax: Any = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the margins of a fitted classifier on training and test rows.

        Parameters
        ----------
        estimator : fitted classifier with a ``decision_function``
            Any such classifier, for example scikit-learn's `SVC`, or a pipeline or search around
            one. The band is shaded if it has two classes and a parameter `theta`. The margins of a
            `CalibratedClassifierCV` with ``ensemble=False`` are those of its machine.
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
        X_test, y_test : default=None
            Test rows and labels, which add a second curve.
        sample_weight, sample_weight_test : array-like of shape (n_samples,), default=None
        normalize, name, ax, curve_kwargs
            See `plot`; `name` defaults to the name of the class.

        Returns
        -------
        MarginDistributionDisplay

        Raises
        ------
        NotFittedError, TypeError
            If `estimator` is not fitted, or has no ``decision_function``.
        ValueError
            If labels are unknown to it, only one of `X_test` and `y_test` is given, or it is an
            ``SVC(decision_function_shape="ovo")`` of more than two classes.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        estimator = uncalibrated(estimator)
        inner = innermost(estimator)
        decide = getattr(estimator, "decision_function", None)
        if decide is None:
            raise TypeError(f"estimator must have a decision_function; {type(inner).__name__} has none")
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test must be given together")
        classes = estimator.classes_
        if len(classes) > 2 and getattr(inner, "decision_function_shape", "ovr") == "ovo":
            raise ValueError(
                "decision_function_shape must be 'ovr': decision values of 'ovo' belong to pairs of classes"
            )
        return cls.from_predictions(
            y,
            decide(X),
            y_true_test=y_test,
            y_score_test=None if X_test is None else decide(X_test),
            sample_weight=sample_weight,
            sample_weight_test=sample_weight_test,
            classes=classes,
            theta=getattr(inner, "theta", None) if len(classes) == 2 else None,
            normalize=normalize,
            name=type(inner).__name__ if name is None else name,
            ax=ax,
            curve_kwargs=curve_kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        y_true_test: Any = None,
        y_score_test: Any = None,
        sample_weight: Any = None,
        sample_weight_test: Any = None,
        classes: Any = None,
        theta: float | None = None,
        normalize: Literal["mean"] | None = None,
        name: str | None = None,
        ax: Any = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the margins that follow from labels and decision values.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels of the training rows.
        y_score : array-like of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Decision values; with two classes, positive values predict ``classes[1]``.
        y_true_test, y_score_test : default=None
            Labels and decision values of test rows, which add a second curve.
        sample_weight, sample_weight_test : array-like of shape (n_samples,), default=None
        classes : array-like of shape (n_classes,), default=None
            Labels of the columns of `y_score`; defaults to the sorted labels in `y_true`.
        theta : float, default=None
            Half width of the shaded band.
        normalize, name, ax, curve_kwargs
            See `plot`.

        Returns
        -------
        MarginDistributionDisplay

        Raises
        ------
        ValueError
            If the shapes do not match, or there are labels that are not in `classes`.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        if (y_true_test is None) != (y_score_test is None):
            raise ValueError("y_true_test and y_score_test must be given together")
        classes = np.unique(y_true) if classes is None else np.asarray(classes)
        margins, given = [margins_of(y_true, y_score, classes)], [sample_weight]
        if y_true_test is not None:
            margins.append(margins_of(y_true_test, y_score_test, classes))
            given.append(sample_weight_test)
        weights = [sample_weights(w, m) for w, m in zip(given, margins, strict=True)]
        display = cls(margins=margins, weights=weights, name=name, theta=theta, multiclass=len(classes) > 2)
        return display.plot(ax, normalize=normalize, curve_kwargs=curve_kwargs)


def _zero_line(ax: Any) -> Any:
    label = "zero: rows up to here are misclassified"
    return ax.axvline(0, color="0.5", linewidth=1, gid="zero margin", label=label)
