"""Schemas: the features, labels and limits of values on which sites agree before they learn.

Schemas only grow: the union of two has the labels, features and limits of both. So the order and
the number of messages between sites do not matter. Features with names are identified by them:
their order is that of one of the sites, and all rows are arranged in this order.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import digest_of
from dimargin.system.arrays import Floats

Label = str | int | float


@dataclass(frozen=True)
class Schema:
    """Description of the rows of one site, or of all sites together.

    Raises ValueError if no rows can have this schema: labels are NaN or too many, or limits are out
    of order.
    """

    terms: Mapping[str, Any]  # Settings that must be the same at all sites: program, loss, parameters, scaling.
    # None for LIBSVM text, whose width may differ between sites: omitted features are zero.
    feature_names: tuple[str, ...] | None
    labels: tuple[Label, ...]  # All labels, sorted.
    low: Floats  # Smallest value of every feature, of shape (n_features,).
    high: Floats  # Largest value of every feature, of shape (n_features,).

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if low.ndim != 1 or low.shape != high.shape:
            raise ValueError(f"its limits have the shapes {low.shape} and {high.shape}, expected one equal dimension")
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError("its limits have NaN or infinite values")
        if (low > high).any() or max(-low.min(initial=0), high.max(initial=0)) > LIMITS.number:
            raise ValueError(f"a lower limit exceeds its upper limit, or a limit exceeds {LIMITS.number:g}")
        if self.feature_names is not None and len(self.feature_names) != len(low):
            raise ValueError(f"{len(self.feature_names)} names for {len(low)} features")
        if self.feature_names is not None and len(set(self.feature_names)) < len(low):
            raise ValueError("two of its features have the same name")
        if len(self.labels) > LIMITS.labels:
            raise ValueError(f"{len(self.labels)} labels, expected at most {LIMITS.labels}")
        if len({isinstance(label, str) for label in self.labels}) > 1:
            raise ValueError("its labels must be all texts or all numbers")
        for label in self.labels:
            if not isinstance(label, str) and not abs(label) <= LIMITS.count:
                raise ValueError(f"a label is {label!r}, expected a text or a number of at most {LIMITS.count}")

    @classmethod
    def of(
        cls, X: Any, y: NDArray[Any], terms: Mapping[str, Any], feature_names: tuple[str, ...] | None = None
    ) -> Schema:
        """Return the schema of the rows of one site, dense or CSR.

        Raises ValueError if there are more features than fit into a message.
        """
        if X.shape[1] > LIMITS.features:
            raise ValueError(f"rows have {X.shape[1]} features, expected at most {LIMITS.features}")
        low = high = np.zeros(X.shape[1])
        if X.shape[0]:
            extremes = (getattr(X, name)(axis=0) for name in ("min", "max"))
            dense = (found.todense() if sp.issparse(found) else found for found in extremes)
            low, high = (np.asarray(found, dtype=np.float64).ravel() for found in dense)
        return cls(dict(terms), feature_names, sorted_labels(y.tolist()), low + 0.0, high + 0.0)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.low)

    @property
    def n_outputs(self) -> int:
        """Number of machines: one for two labels, otherwise one per label."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    @property
    def digest(self) -> str:
        """Digest of the schema, of sixteen hexadecimal digits."""
        return digest_of(self.plain())

    def plain(self) -> dict[str, Any]:
        """Return the schema as a dictionary, for a message, a checkpoint or a model file."""
        names = None if self.feature_names is None else list(self.feature_names)
        terms = {name: self.terms[name] for name in sorted(self.terms)}
        return {
            "terms": terms, "feature_names": names, "labels": list(self.labels), "low": self.low, "high": self.high
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Schema:
        """Return the schema of the dictionary that `plain` returned."""
        names = plain["feature_names"]
        return cls(
            dict(plain["terms"]), None if names is None else tuple(names), sorted_labels(plain["labels"]),
            np.array(plain["low"], dtype=np.float64), np.array(plain["high"], dtype=np.float64),
        )  # fmt: skip

    def difference(self, other: Schema) -> str | None:
        """Return why rows of both schemas cannot train one model; None if they can."""
        for name in sorted({*self.terms, *other.terms}):
            here, there = (schema.terms.get(name, "missing") for schema in (self, other))
            if type(here) is not type(there) or here != there:  # True equals 1, but has another digest.
                return f"{name} is {there!r} there and {here!r} here"
        if (self.feature_names is None) != (other.feature_names is None):
            here, there = ("no names" if s.feature_names is None else "names" for s in (self, other))
            return f"its features have {there} there and {here} here"
        if self.feature_names is not None and other.feature_names is not None:
            here, there = set(self.feature_names), set(other.feature_names)
            only = {"there": sorted(there - here), "here": sorted(here - there)}
            if here != there:
                return f"its features differ: {', '.join(f'{_first_names(only[w])} only {w}' for w in only if only[w])}"
        if {type(label) is str for label in (*self.labels, *other.labels)} == {True, False}:
            return f"its labels, such as {other.labels[0]!r}, are of another kind than those here, {self.labels[0]!r}"
        return None

    def union(self, other: Schema, limits: bool = True) -> Schema:
        """Return a schema with the labels, features and limits of both.

        The smaller of the two tuples of names gives the order of features, so that the union is
        symmetric. Without `limits`, this order stays, and the other's limits count only for
        features new here.
        """
        names = self.feature_names
        if names is not None and other.feature_names is not None and limits:
            names = min(names, other.feature_names)
        width = max(self.n_features, other.n_features)
        low, high = self._widened(width, names)
        other_low, other_high = other._widened(width, names)
        known = slice(self.n_features if not limits else 0, None)
        low[known] = np.minimum(low, other_low)[known]
        high[known] = np.maximum(high, other_high)[known]
        return Schema(self.terms, names, sorted_labels([*self.labels, *other.labels]), low, high)

    def _widened(self, width: int, names: tuple[str, ...] | None) -> tuple[Floats, Floats]:
        order, missing = _order(self.feature_names, names), (0, width - self.n_features)
        low, high = (np.pad(values[order], missing) + 0.0 for values in (self.low, self.high))  # No minus zero.
        return low, high

    # ---- rows as sites learn from them ---------------------------------------------------------------------------

    def arranged(self, X: Any, names: tuple[str, ...] | None) -> Any:
        """Return rows, whose features have these names, with features in the order of the schema."""
        if names == self.feature_names:
            return X
        order = _order(names, self.feature_names)
        return X[:, order] if sp.issparse(X) else np.take(X, order, axis=1)  # Unlike indexing, this keeps C order.

    @property
    def factors(self) -> Floats:
        """Factors by which features are multiplied; one if all values are equal, or without scaling."""
        spread = {"minmax": self.high - self.low, "maxabs": np.maximum(np.abs(self.low), np.abs(self.high))}
        size = spread.get(str(self.terms.get("scaling")), np.ones_like(self.low))
        return 1 / np.where(size > 1e-100, size, 1.0)  # A smaller spread counts as equal values, so that 1/x is finite.

    @property
    def shifts(self) -> Floats:
        """Values that are subtracted from the features before they are multiplied by `factors`."""
        return self.low if self.terms.get("scaling") == "minmax" else np.zeros_like(self.low)

    def scaled(self, X: Any) -> Any:
        """Return rows, of at most this width, scaled, with a last feature of one if there is an intercept."""
        missing = self.n_features - X.shape[1]
        if sp.issparse(X):
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.n_features))
            X = sp.csr_array(X @ sp.diags_array(self.factors))
            return sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))])) if self.has_intercept else X
        X = (np.pad(X, ((0, 0), (0, missing))) - self.shifts) * self.factors
        return np.column_stack([X, np.ones(len(X))]) if self.has_intercept else X

    @property
    def has_intercept(self) -> bool:
        """Return whether scaled rows get a last feature of one."""
        return bool(self.terms.get("fit_intercept"))

    def signs(self, y: NDArray[Any]) -> Floats:
        """Return the signs of rows, plus or minus one, of shape (n_outputs, n)."""
        labels = self.labels[-self.n_outputs :]
        return np.array([np.where(y == label, 1.0, -1.0) for label in labels]).reshape(len(labels), len(y))

    def moved(self, weights: Floats, before: Schema) -> Floats:
        """Convert weights of an earlier schema to this one without changing decision values of rows.

        Weights of a new feature or label are zero.
        """
        n_old, order = before.n_features, _order(before.feature_names, self.feature_names)
        moved = np.zeros((self.n_outputs, self.n_features + self.has_intercept))
        rows = weights
        if len(before.labels) == 2 < len(self.labels):
            rows = np.concatenate([-weights, weights])
        indices = [0] if len(before.labels) == 2 == len(self.labels) else [self.labels.index(x) for x in before.labels]
        raw = (rows[:, :n_old] * before.factors)[:, order]
        moved[indices, :n_old] = raw / self.factors[:n_old]
        if self.has_intercept:
            moved[indices, -1] = rows[:, -1] + raw @ (self.shifts[:n_old] - before.shifts[order])
        return moved


def _order(names: tuple[str, ...] | None, wanted: tuple[str, ...] | None) -> Any:
    """Return the index that arranges features of these names in the wanted order."""
    if names is None or wanted is None or names == wanted:
        return slice(None)
    places = {name: k for k, name in enumerate(names)}
    return np.array([places[name] for name in wanted], dtype=np.intp)


def _first_names(names: Sequence[str], n: int = 3) -> str:
    rest = len(names) - n
    return ", ".join(map(repr, names[:n])) + (f" and {rest} more" if rest > 0 else "")


def similar_labels(labels: Sequence[Label]) -> list[list[str]]:
    """Return groups of labels that differ only in case, blanks or Unicode form."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        if isinstance(label, str):
            plain = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
            groups.setdefault(plain, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def sorted_labels(labels: list[Any]) -> tuple[Label, ...]:
    """Return the labels sorted and without repetitions; an integer replaces an equal floating-point number."""
    if any(label != label for label in labels):  # NaN differs from itself, so that every union would add another one.
        raise ValueError("a label is NaN, expected a text or a number")
    once: dict[Label, Label] = {}
    for label in labels:
        if label not in once or isinstance(label, int):
            once[label] = label + 0.0 if isinstance(label, float) else label  # Minus zero becomes zero.
    return tuple(sorted(once.values(), key=lambda label: (isinstance(label, str), label)))
