"""Named points, and the messages by which sites that agree on a core-set exchange them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from msgspec import Meta, field
from msgspec.structs import asdict

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Digest, Finite, Message, Numbers, SiteName, digest_of
from dimargin.system.arrays import Floats

_Indices = Annotated[Array, Numbers(low=0, high=LIMITS.count, dtype="<i8")]
_Signature = Annotated[bytes, Meta(max_length=LIMITS.signature)]
_Certificates = Annotated[bytes, Meta(max_length=LIMITS.certificates)]


class Name(NamedTuple):
    """Name of a point, by which points are ordered."""

    site: str
    row: int
    content: bytes = b""  # Digest of the point if rows are signed.


class Candidates(Message, frozen=True, omit_defaults=True, tag="candidates"):
    """Message with a core-set of k points."""

    sites: Annotated[list[SiteName], Meta(max_length=LIMITS.points)]  # Site of each point.
    rows: _Indices  # Number of each point among the rows of its site, of shape (k,).
    # The points, of shape (k, n_features). For sparse points the values, of shape (n_values,), with
    # `indices` and `indptr` as in a CSR array.
    X: Annotated[Array, Numbers((1, 2))]
    # Codes of the points' labels, of shape (k,), or ones without labels.
    labels: Annotated[Array, Numbers(low=-LIMITS.labels, high=LIMITS.labels)]
    # Weights of the rows, of shape (k,), by which C is multiplied.
    masses: Annotated[Array, Numbers(low=LIMITS.min_mass, high=LIMITS.max_mass)]
    quiet: Count  # Rounds since the last change that the sender knows.
    # The core-set's value, which the receiver computes again only if it is the best one received.
    value: Finite = 0.0
    digest: Digest = ""  # As in `Named.digest`; a message without points says that the core-set is unchanged.
    output: Annotated[int, Meta(ge=0, lt=LIMITS.labels)] = 0  # Number of the core-set's machine.
    schema: Digest = ""  # Digest of the sender's schema.
    indices: _Indices | None = None
    indptr: _Indices | None = None
    # If sites have certificates: the signature of each point by its site, and the index of its
    # certificate, of shape (k,).
    signatures: Annotated[list[_Signature], Meta(max_length=LIMITS.points)] = field(default_factory=list)
    signers: _Indices | None = None
    certificates: Annotated[list[_Certificates], Meta(max_length=LIMITS.sites)] = field(default_factory=list)

    def contradiction(self) -> str | None:
        """Return why the columns contradict each other or are not a CSR array, or None."""
        k = len(self.sites)
        columns = (self.labels, self.masses, self.rows)
        if any(column.shape != (k,) for column in columns):
            return f"its core-set has columns of shapes {[column.shape for column in columns]} for {k} points"
        if self.signers is not None:
            if self.signers.shape != (k,) or len(self.signatures) != k:
                return f"it has {len(self.signatures)} signatures for {k} points"
            if self.signers.max(initial=-1) >= len(self.certificates):
                return f"it has {len(self.certificates)} certificates, and refers to number {self.signers.max()}"
        if self.indices is None and self.indptr is None:
            return None if self.X.ndim == 2 and len(self.X) == k else f"its core-set has shape {self.X.shape}"
        return _csr_fault(self.X, self.indices, self.indptr, k)


@dataclass(frozen=True)
class Named:
    """Points with their names."""

    names: tuple[Name, ...]
    X: Any  # ndarray or CSR array, in canonical form, of shape (k, n_features)
    labels: Floats
    masses: Floats  # Weights of the rows.

    @classmethod
    def of(cls, site: str, first: int, X: Any, labels: Floats, masses: Floats | None = None) -> Named:
        """Name the rows of a site, numbered from `first`; their weights are one by default."""
        n = X.shape[0]
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64, copy=True)
            X.sum_duplicates()
            X.eliminate_zeros()
        else:
            X = np.asarray(X, dtype=np.float64)
        return cls(tuple(Name(site, first + k) for k in range(n)), X, labels, np.ones(n) if masses is None else masses)

    @cached_property
    def digest(self) -> str:
        """Digest of the points in their order, of sixteen hexadecimal digits."""
        names = [(name.site, name.row) for name in self.names]
        content = {"names": names, "labels": self.labels, "masses": self.masses, **stored(self.X)}
        return digest_of(content)

    def by_content(self) -> Named:
        """Return the points with the digest of each in its name, so that different points have different names."""
        return replace(self, names=tuple(name._replace(content=self._content(k)) for k, name in enumerate(self.names)))

    def _content(self, k: int) -> bytes:
        """Return a digest of 32 bytes of one point."""
        content, X = hashlib.sha256(np.array([self.labels[k], self.masses[k]], dtype="<f8").tobytes()), self.X
        if sp.issparse(X):
            own = slice(X.indptr[k], X.indptr[k + 1])
            content.update(X.indices[own].astype("<i8").tobytes())
            content.update(X.data[own].astype("<f8").tobytes())
        else:
            content.update(X[k].astype("<f8").tobytes())
        return content.digest()

    def take(self, indices: Any) -> Named:
        """Return the points at these indices."""
        indices = np.asarray(indices, dtype=np.int64)
        return Named(tuple(self.names[k] for k in indices), self.X[indices], self.labels[indices], self.masses[indices])

    def differing(self, other: Named) -> Name | None:
        """Return a name that belongs to different points here and in `other`, or None."""
        indices = {name: k for k, name in enumerate(self.names)}
        both = [j for j, name in enumerate(other.names) if name in indices]
        there, here = other.take(both), self.take([indices[other.names[j]] for j in both])
        unequal = here.X != there.X
        differs = np.diff(unequal.tocsr().indptr) > 0 if sp.issparse(unequal) else unequal.any(axis=1)
        differs = differs | (here.labels != there.labels) | (here.masses != there.masses)
        return there.names[int(differs.argmax())] if differs.any() else None

    def fields(self) -> dict[str, Any]:
        """Return the points as fields of a message or a checkpoint, which `points_of` reads."""
        rows = np.array([name.row for name in self.names], dtype=np.int64)
        sites = [name.site for name in self.names]
        return {"sites": sites, "rows": rows, "labels": self.labels, "masses": self.masses, **stored(self.X)}

    @staticmethod
    def joined(parts: list[Named]) -> Named:
        """Concatenate several sets of points."""
        names = tuple(name for part in parts for name in part.names)
        X = [part.X for part in parts]
        together = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.concatenate(X)
        labels, masses = (np.concatenate([getattr(part, field) for part in parts]) for field in ("labels", "masses"))
        return Named(names, together, labels, masses)

    @staticmethod
    def united(parts: list[Named]) -> Named:
        """Join several sets of points without repetitions, sorted by name; of equal names the first point stays."""
        joined = Named.joined(parts)
        first = {name: k for k, name in reversed(list(enumerate(joined.names)))}
        return joined.take([first[name] for name in sorted(first)])


def stored(X: Any) -> dict[str, Array]:
    """Return rows as fields of a message."""
    if not sp.issparse(X):
        return {"X": X}
    return {"X": X.data, "indices": X.indices.astype(np.int64), "indptr": X.indptr.astype(np.int64)}


def points_of(fields: Mapping[str, Any], width: int) -> Named:
    """Return points from the fields of a message or a checkpoint that `Named.fields` gave."""
    names = tuple(map(Name, fields["sites"], fields["rows"].tolist()))
    X = fields["X"]
    if fields.get("indices") is not None:
        X = sp.csr_array((X, fields["indices"], fields["indptr"]), shape=(len(names), width))
    return Named(names, X, fields["labels"], fields["masses"])


def unsound(
    message: Candidates, own: Named, norm_bound: float, mass_bounds: tuple[float, float], codes: Collection[float]
) -> str | None:
    """Return why no correct site with rows like this site's would send a message, or None."""
    k, width = len(message.sites), own.X.shape[1]
    if (message.indices is not None) != sp.issparse(own.X):
        here, there = ("sparse", "dense") if sp.issparse(own.X) else ("dense", "sparse")
        return f"its core-set is {there}, and the rows here are {here}"
    if message.indices is None and message.X.shape != (k, width):
        return f"its core-set has shape {message.X.shape}, expected {(k, width)}"
    if message.indices is not None and message.indices.max(initial=0) >= width:
        return f"its core-set has feature {message.indices.max()}, expected less than {width}"
    if not np.isin(message.labels, list(codes)).all():
        return f"its core-set has labels other than {', '.join(f'{c:g}' for c in codes)}"
    low, high = mass_bounds
    if k and not low <= message.masses.min() <= message.masses.max() <= high:
        return f"its core-set has rows of weights that are not between {low:g} and {high:g}"
    points = points_of(asdict(message), width)
    longest = float(np.sqrt((points.X * points.X).sum(axis=1).max(initial=0.0)))
    if longest > norm_bound:
        return f"a point has a norm of {longest:.3g}, expected at most {norm_bound:.3g}"
    return None


def _csr_fault(X: Array, indices: Array | None, indptr: Array | None, k: int) -> str | None:
    """Return why these are not k rows of a CSR array in canonical form; None if they are."""
    if indices is None or indptr is None or X.ndim != 1 or indices.shape != X.shape or indptr.shape != (k + 1,):
        return f"its core-set is not a CSR array of {k} rows"
    if indptr[0] != 0 or indptr[-1] != len(X) or (np.diff(indptr) < 0).any():
        return f"its core-set is not a CSR array of {k} rows"
    starts = np.zeros(len(X) + 1, dtype=bool)
    starts[indptr] = True
    ascending = (np.diff(indices) > 0) | starts[1:-1] if len(X) else True
    return None if np.all(ascending) and (X != 0).all() else "its core-set is not in canonical CSR form"
