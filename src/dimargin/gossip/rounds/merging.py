r"""Rules by which a site merges its vector with those of its neighbours, some of whom may lie within all bounds.

A rule gets the site's own vector ``x_i``, the received vectors ``x_j`` by the senders' names, and
the senders' weights ``w_j`` (not negative; those of `metropolis_weights` in
`dimargin.gossip.topology` sum to at most one, except in a round in which neighbours join). If all
vectors are equal, it returns them unchanged. With at most f liars among the neighbours, and D the
distance from x_i of the farthest vector of an honest neighbour:

============================  ==========================================================================================
`Mean`                        one liar can move the site to any vector
`TrimmedMean`                 every coordinate stays between the smallest and the largest of the honest sites
`ClippedMean`                 liars move the site by at most D times the sum of their weights
`NearestMixing`               vectors farther away than the honest ones are left out; then another rule applies
============================  ==========================================================================================

None of these bounds is zero, and none can be: if honest sites have different rows, a liar that
behaves like a site with very different rows cannot be distinguished from an honest one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.system.arrays import Floats


class MergeRule(ABC):
    """Abstract base class of the rules, each a frozen dataclass of its parameters."""

    @abstractmethod
    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the merged vector.

        Parameters
        ----------
        own : ndarray of any shape
        received : mapping from name to ndarray of the same shape
            The newest vector of every neighbour that has sent one.
        weights : mapping from name to float
            Weight of every neighbour in `received`; there may be others.

        Returns
        -------
        ndarray of the same shape
            `own` if fewer than `least` vectors were received.
        """

    @property
    def least(self) -> int:
        """Number of vectors that must have been received; with fewer of them the site keeps its own."""
        return 0

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        return


def check_merge(merge: object) -> None:
    """Raise ValueError unless `merge` is a merge rule with valid parameters."""
    if not isinstance(merge, MergeRule):
        raise ValueError(
            f"merge must be a rule such as Mean(), TrimmedMean(f), ClippedMean(f) or NearestMixing(f), got {merge!r}"
        )
    merge.validate()


@dataclass(frozen=True)
class Mean(MergeRule):
    """Weighted mean ``x_i + sum_j w_j (x_j - x_i)``, which trusts everybody.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import Mean
    >>> received = {"a": np.array([4.0]), "b": np.array([-8.0])}
    >>> Mean()(np.zeros(1), received, {"a": 0.25, "b": 0.25})
    array([-1.])
    """

    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the weighted mean."""
        merged = own.copy()
        for name in sorted(received):  # The order of arrival would change the rounding.
            merged += weights[name] * (received[name] - own)
        return merged


@dataclass(frozen=True)
class TrimmedMean(MergeRule):
    """Coordinate-wise mean without the f largest and the f smallest values of the neighbours.

    The own value is never trimmed, and is averaged with the remaining ones,
    ``(x_i + sum of the k - 2f middle values) / (k - 2f + 1)`` for k neighbours: BRIDGE-T (C. Fang,
    Z. Yang, W. Bajwa, "BRIDGE: Byzantine-resilient decentralized gradient descent", IEEE TSIPN
    2022; with a server: D. Yin et al., "Byzantine-robust distributed learning: towards optimal
    statistical rates", ICML 2018). The weights are not used.

    Attributes
    ----------
    f : int
        Largest number of lying neighbours that the rule tolerates. At least 2f + 1 neighbours must
        be heard; otherwise the site keeps its own vector.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import TrimmedMean
    >>> received = {name: np.array([value]) for name, value in zip("abc", (1.0, 2.0, 1e9))}
    >>> TrimmedMean(1)(np.zeros(1), received, {})
    array([1.])
    """

    f: int

    @property
    def least(self) -> int:
        """Return 2f + 1."""
        return 2 * self.f + 1

    def validate(self) -> None:
        """Raise ValueError unless f is a whole number that is not negative."""
        check_whole("f", self.f, 0)

    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the trimmed mean."""
        k = len(received)
        if k < self.least:
            return own.copy()
        values = np.sort(np.array([received[name] for name in sorted(received)]), axis=0)[self.f : k - self.f]
        return np.asarray(own + (values - own).sum(axis=0) / (len(values) + 1))


@dataclass(frozen=True)
class ClippedMean(MergeRule):
    r"""Weighted mean of differences that are clipped to a radius: self-centred clipping.

    ``x_i + sum_j w_j (x_j - x_i) min(1, tau / |x_j - x_i|)`` (L. He, S. P. Karimireddy, M. Jaggi,
    "Byzantine-robust decentralized learning via self-centered clipping", 2022, arXiv:2202.01545,
    ClippedGossip). Their theorem 1 needs ``tau_i^2 = 1/delta_i sum_(j honest) w_j |x_i - x_j|^2``,
    where delta_i is the unknown sum of the liars' weights. The radius "auto" replaces it by the
    (f+1)-th largest distance, as their program does for one liar (the second largest): the f
    largest distances are clipped to the next one, which does not exceed the largest distance of an
    honest neighbour, whatever f liars send.

    The norm is that of the whole array, over all outputs.

    Attributes
    ----------
    f : int
        Largest number of lying neighbours that the rule tolerates. Only the radius "auto" uses it,
        for which at least f + 1 neighbours must be heard; otherwise the site keeps its own vector.
    radius : "auto" or float, default="auto"
        Largest distance tau that is not clipped; "auto" is the (f+1)-th largest in this round.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import ClippedMean
    >>> received = {"a": np.array([1.0]), "b": np.array([1e9])}
    >>> ClippedMean(1)(np.zeros(1), received, {"a": 0.25, "b": 0.25})
    array([0.5])
    """

    f: int
    radius: Literal["auto"] | float = "auto"

    @property
    def least(self) -> int:
        """Return f + 1, or zero with a fixed radius."""
        return self.f + 1 if self.radius == "auto" else 0

    def validate(self) -> None:
        """Raise ValueError unless f is a whole number that is not negative, and the radius "auto" or positive."""
        check_whole("f", self.f, 0)
        if self.radius != "auto":
            check_between("radius", self.radius, 0)

    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Return the mean of clipped differences."""
        if len(received) < self.least:
            return own.copy()
        names = sorted(received)
        differences = {name: received[name] - own for name in names}
        distances = {name: float(np.linalg.norm(differences[name])) for name in names}
        radius = sorted(distances.values())[-1 - self.f] if self.radius == "auto" else float(self.radius)
        merged = own.copy()
        for name in names:
            merged += weights[name] * min(1.0, radius / max(distances[name], 1e-300)) * differences[name]
        return merged


@dataclass(frozen=True)
class NearestMixing(MergeRule):
    """Rule that first replaces each vector by the mean of the vectors nearest to it, and then applies another rule.

    Of n vectors, the own one included, each becomes the mean of the n - f that are nearest to it,
    itself included (nearest neighbour mixing: Y. Allouah et al., "Fixing by mixing: a recipe for
    optimal Byzantine ML under heterogeneity", AISTATS 2023, algorithm 2). If rows differ between
    sites, this brings honest vectors together and leaves less room for lies, at n^2 distances.

    Attributes
    ----------
    f : int
        Largest number of lying neighbours that the rule tolerates. At least f + 1 neighbours must
        be heard, and as many as `rule` needs, by default 2f + 1. Otherwise the site keeps its own
        vector.
    rule : MergeRule, optional
        Rule that merges the mixed vectors; None is ``TrimmedMean(f)``.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import NearestMixing
    >>> received = {name: np.array([value]) for name, value in zip("abc", (1.0, 2.0, 1e9))}
    >>> NearestMixing(1)(np.zeros(1), received, {})
    array([1.])
    """

    f: int
    rule: MergeRule | None = None

    @property
    def _next_rule(self) -> MergeRule:
        return TrimmedMean(self.f) if self.rule is None else self.rule

    @property
    def least(self) -> int:
        """Return the larger of f + 1 and the number that the other rule needs."""
        return max(self._next_rule.least, self.f + 1)

    def validate(self) -> None:
        """Raise ValueError unless f is a whole number that is not negative, and the other rule is valid."""
        check_whole("f", self.f, 0)
        self._next_rule.validate()

    def __call__(self, own: Floats, received: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
        """Mix the vectors, and return their merger by the other rule."""
        if len(received) < self.least:
            return own.copy()
        names = sorted(received)
        vectors = np.array([own, *(received[name] for name in names)]).reshape(len(names) + 1, -1)
        nearest = np.argsort(cdist(vectors, vectors), axis=1, kind="stable")[:, : len(vectors) - self.f]
        # Means of differences leave equal vectors unchanged.
        means = [x + (vectors[near] - x).mean(axis=0) for x, near in zip(vectors, nearest, strict=True)]
        mixed = [one.reshape(own.shape) for one in means]
        return self._next_rule(mixed[0], dict(zip(names, mixed[1:], strict=True)), weights)
