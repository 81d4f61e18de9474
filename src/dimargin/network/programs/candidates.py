"""Points with names, as sites that agree on a core-set tell one another of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dimargin.balls.active_set import Floats
from dimargin.network.messages import Array, Message, pack

Name = tuple[str, int]  # of a point: site and row

FIELDS = ("X", "labels", "masses")  # of points


class Candidates(Message, frozen=True, tag="candidates"):
    """A core-set on its way.

    Attributes
    ----------
    sites : list of str
        Where its points come from.
    rows : ndarray of shape (k,), of int64
        Which they are there.
    X : ndarray of shape (k, n_features)
    labels : ndarray of shape (k,)
        Codes of their labels; ones where there are none.
    masses : ndarray of shape (k,)
        Weights of the rows, by which C is multiplied.
    quiet : int
        Rounds since the last change that the sender knows of.
    digest : str
        Of the core-set, as `Named.digest` has it. A message without a point says that it is still that one.
    output : int
        Which of several machines the core-set is of.
    schema : str
        Digest of what rows mean to the sender.
    """

    sites: list[str]
    rows: Array
    X: Array
    labels: Array
    masses: Array
    quiet: int
    digest: str = ""
    output: int = 0
    schema: str = ""


@dataclass(frozen=True)
class Named:
    """Points with their names.

    Attributes
    ----------
    names : tuple of (str, int)
    X : ndarray of shape (k, n_features)
    labels, masses : ndarray of shape (k,)
    """

    names: tuple[Name, ...]
    X: Floats
    labels: Floats
    masses: Floats

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that are the same for the same points in the same order only."""
        return hashlib.sha256(
            pack({"names": self.names, **{name: getattr(self, name) for name in FIELDS}})
        ).hexdigest()[:16]

    def take(self, places: Any) -> Named:
        """Some of them."""
        places = np.asarray(places, dtype=np.int64)
        return Named(tuple(self.names[k] for k in places), self.X[places], self.labels[places], self.masses[places])

    def differing(self, other: Named) -> Name | None:
        """A name that stands for another point there."""
        places = {name: k for k, name in enumerate(self.names)}
        for j, name in enumerate(other.names):
            k = places.get(name)
            if k is not None and not (
                np.array_equal(self.X[k], other.X[j])
                and (self.labels[k], self.masses[k]) == (other.labels[j], other.masses[j])
            ):
                return name
        return None

    @staticmethod
    def joined(parts: list[Named]) -> Named:
        """All of several, one after the other."""
        names = tuple(name for part in parts for name in part.names)
        return Named(names, *(np.concatenate([getattr(part, field) for part in parts]) for field in FIELDS))


def points_of(message: Candidates) -> Named:
    """That a message brings."""
    names = tuple(zip(message.sites, message.rows.tolist(), strict=True))
    return Named(names, message.X, message.labels, message.masses)


def unsound(message: Candidates, width: int, norm_bound: float, codes: Collection[float]) -> str | None:
    """What no site that learns from rows of this width, with these codes of labels, would say."""
    X, k = message.X, len(message.sites)
    if X.shape != (k, width) or not message.labels.shape == message.masses.shape == message.rows.shape == (k,):
        return f"its core-set has shape {X.shape} for {k} points, expected {width} features"
    if not (np.isfinite(X).all() and np.isin(message.labels, list(codes)).all()):
        return f"its core-set has NaN or infinite values, or labels other than {', '.join(f'{c:g}' for c in codes)}"
    if not (np.isfinite(message.masses).all() and (message.masses > 0).all()):
        return "its core-set has weights that are not positive"
    longest = float(np.sqrt((X**2).sum(axis=1).max(initial=0.0)))
    if longest > norm_bound:
        return f"a point has a norm of {longest:.3g}, expected at most {norm_bound:.3g}"
    if len(set(zip(message.sites, message.rows.tolist(), strict=True))) < k:
        return "its core-set names a point twice"
    return None
