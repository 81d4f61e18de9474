"""Attacks of the literature: what a member of a network says in place of what it has learnt.

They are meant for vectors that sites learn. The papers' liars attack gradients, which are sent to a
server; here, as in L. He et al. (2022), it is the weights that neighbours exchange.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dimargin.gossip.rounds.parameter_checks import check_between
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class Attack(ABC):
    """Abstract base class of attacks, each a frozen dataclass of its parameters."""

    @abstractmethod
    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return what is sent in place of a vector.

        Parameters
        ----------
        own : ndarray of any shape
            What an honest site would send.
        heard : sequence of ndarray of the same shape
            The newest vector of every honest neighbour that was heard.
        rng : numpy.random.Generator
        """

    def rows(self, rows: HingeRows) -> HingeRows:
        """Return the rows from which the liar learns."""
        return rows

    def facing(self, neighbour: str) -> Attack:
        """Return the attack on one neighbour: the same for all, unless the liar says other things to others."""
        return self

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        return


@dataclass(frozen=True)
class SignFlip(Attack):
    """The site's own vector with its sign changed: ``-scale x_i``.

    L. Li et al., "RSA: Byzantine-robust stochastic aggregation methods", AAAI 2019, whose liars
    lengthen it as well.

    Attributes
    ----------
    scale : float, default=4.0
        Factor, positive; 1 keeps the norm of the vector.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin_bench.gossip_rivals import SignFlip
    >>> SignFlip()(np.ones(2), [], np.random.default_rng(0))
    array([-4., -4.])
    """

    scale: float = 4.0

    def validate(self) -> None:
        """Raise ValueError unless the scale is positive."""
        check_between("scale", self.scale, 0)

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return the vector turned round."""
        return -self.scale * own


@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """The mean of what was heard, and a little: ``mean - z std`` in every coordinate.

    G. Baruch, M. Baruch, Y. Goldberg, "A little is enough: circumventing defenses for distributed
    learning", NeurIPS 2019, algorithm 3. Their largest z that goes unnoticed is the quantile of
    ``(n - f - s) / (n - f)``, where ``s = n // 2 + 1 - f``: zero for two liars among ten sites.
    Here it is a parameter.

    Attributes
    ----------
    z : float, default=1.5
        May be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin_bench.gossip_rivals import LittleIsEnough
    >>> LittleIsEnough(1.0)(np.zeros(1), [np.array([1.0]), np.array([3.0])], np.random.default_rng(0))
    array([1.])
    """

    z: float = 1.5

    def validate(self) -> None:
        """Raise ValueError unless z is finite."""
        check_between("z", self.z, -math.inf)

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return the mean, moved; the own vector before anything was heard."""
        return np.asarray(np.mean(heard, axis=0) - self.z * np.std(heard, axis=0)) if heard else own


@dataclass(frozen=True)
class InnerProduct(Attack):
    """The mean of what was heard, turned round: ``-scale mean``.

    C. Xie, O. Koyejo, I. Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner product
    manipulation", UAI 2020, section 3: the inner product of the merged vector and the honest mean
    becomes negative. Small scales pass rules that look for outliers, large ones defeat means.

    Attributes
    ----------
    scale : float, default=0.5
        Factor, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin_bench.gossip_rivals import InnerProduct
    >>> InnerProduct()(np.zeros(1), [np.array([1.0]), np.array([3.0])], np.random.default_rng(0))
    array([-1.])
    """

    scale: float = 0.5

    def validate(self) -> None:
        """Raise ValueError unless the scale is positive."""
        check_between("scale", self.scale, 0)

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return the mean turned round; the own vector turned round before anything was heard."""
        return np.asarray(-self.scale * np.mean(heard or [own], axis=0))


@dataclass(frozen=True)
class RandomNoise(Attack):
    """Gaussian noise in place of the vector, of about `scale` times its length.

    Attributes
    ----------
    scale : float, default=3.0
        Ratio of the lengths, positive.
    """

    scale: float = 3.0

    def validate(self) -> None:
        """Raise ValueError unless the scale is positive."""
        check_between("scale", self.scale, 0)

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return noise."""
        return np.asarray(rng.normal(size=own.shape) * self.scale * np.linalg.norm(own) / math.sqrt(max(own.size, 1)))


@dataclass(frozen=True)
class Equivocation(SignFlip):
    """Other things to other neighbours: ``scale x_i`` to about half of them, ``-scale x_i`` to the rest."""

    def facing(self, neighbour: str) -> Attack:
        """Return the attack on one neighbour, by its name."""
        return SignFlip(self.scale if zlib.crc32(neighbour.encode()) % 2 else -self.scale)


@dataclass(frozen=True)
class Stale(Attack):
    """Zero weights, which the site had before it has learnt anything, in every round."""

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return zeros."""
        return np.zeros_like(own)


@dataclass(frozen=True)
class LabelFlip(Attack):
    """Inverted labels, from which the liar learns by the honest program (first: B. Biggio et al., ACML 2011)."""

    def rows(self, rows: HingeRows) -> HingeRows:
        """Return the rows with the other labels."""
        return HingeRows(rows.X, -rows.signs)

    def __call__(self, own: Floats, heard: Sequence[Floats], rng: np.random.Generator) -> Floats:
        """Return the own vector."""
        return own
