"""Vertices of the convex hull of rows, exact up to rounding in any number of dimensions.

In up to six dimensions they are those of Quickhull (Barber, Dobkin, Huhdanpaa, ACM TOMS 1996),
whose facets are too many beyond. There, linear programs find them, one for every row and of the
size of the hull, not of all rows (Clarkson, "More output-sensitive geometric algorithms", FOCS
1994): a row that a plane separates from the vertices known so far leads to one more, the row that
lies farthest on its side of the plane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from dimargin.system.arrays import UNIT, Floats, Indices

_QUICKHULL = 6  # dimensions; of normal rows in seven, a thousand have 94,000 facets, which take eight seconds
_MAX_QUICKHULL, _MAX_PROGRAMS = 100_000, 1_000  # rows, beyond which hulls take minutes
_FLAT = 1e-10  # spread in a direction, relative to the largest, that is none
_ROUNDINGS = 8  # units in the last place of the largest value, by which rows off a plane count as lying in it
_TIE = 1e-10  # of spread coordinates


def check_hull(n_rows: int, n_features: int) -> None:
    """Raise ValueError where hulls of so many rows would take minutes or more."""
    most = _MAX_QUICKHULL if n_features <= _QUICKHULL else _MAX_PROGRAMS
    if n_rows > most:
        raise ValueError(
            f"selection='hull' finds the vertices of at most {most} rows of {n_features} features, and all sites "
            f"together have {n_rows}: take selection='support' or 'ranked'"
        )


def hull_vertices(X: Any) -> Indices:
    """Return which rows are vertices of the convex hull of all, of equal rows the first.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)

    Returns
    -------
    ndarray of shape (n_vertices,)
        Ascending.

    Examples
    --------
    >>> hull_vertices(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.5, 0.5], [2.0, 0.0]])).tolist()
    [0, 1, 3]
    """
    rows = np.asarray(X.todense() if sp.issparse(X) else X, dtype=np.float64)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    _, first = np.unique(rows, axis=0, return_index=True)
    first = np.sort(first)
    points = _coordinates(rows[first])
    n, rank = points.shape
    if n <= rank + 1:  # as many directions as differences: a simplex
        return first
    if rank == 1:
        found: Any = [points[:, 0].argmin(), points[:, 0].argmax()]
    else:
        found = ConvexHull(points).vertices if rank <= _QUICKHULL else _by_programs(points)
    return np.sort(first[found])


def _coordinates(rows: Floats) -> Floats:
    """Return distinct rows in the space that they span, as spread out in one direction as in another.

    An affine map keeps the vertices; Quickhull takes no flat hulls, and loses vertices of those
    that are nearly flat.
    """
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    rounding = _ROUNDINGS * UNIT * float(np.abs(rows).max(initial=0.0)) * rows.size**0.5
    spread = sizes > max(_FLAT * float(sizes.max(initial=0.0)), rounding)
    return np.asarray(left[:, spread] * len(rows) ** 0.5)


def _by_programs(points: Floats) -> list[int]:
    """Return the vertices among distinct points, by a linear program for every point, or two for a vertex."""
    directions = np.concatenate([points, np.eye(points.shape[1]), -np.eye(points.shape[1])])
    known = sorted({_extreme(points, direction) for direction in directions})  # most vertices, of round sets of points
    for k in sorted(set(range(len(points))) - set(known)):
        while k not in known:
            direction = _separating(points[k], points[known])
            found = None if direction is None else _extreme(points, direction)
            if found is None or found in known:  # inside or, but for rounding, beside a vertex
                break
            known.append(found)
    return known


def _extreme(points: Floats, direction: Floats) -> int:
    """Return the point that is farthest in a direction; of equally far ones the last by its coordinates, a vertex."""
    far = np.arange(len(points))
    for axis in (direction, *np.eye(points.shape[1])):
        along = points[far] @ axis
        far = far[along >= along.max() - _TIE * max(1.0, float(np.abs(along).max()))]
        if len(far) == 1:
            break
    return int(far[0])


def _separating(point: Floats, others: Floats) -> NDArray[np.float64] | None:
    """Return a direction in which a point is farther than all others; None if it is in their hull.

    It maximises ``v.(point - others)``, the least of them, over ``|v|_inf <= 1``.
    """
    d = len(point)
    objective = np.append(np.zeros(d), -1.0)
    rows = np.column_stack([others - point, np.ones(len(others))])  # t <= v.(point - other)
    bounds = [(-1.0, 1.0)] * d + [(None, None)]
    found = linprog(objective, A_ub=rows, b_ub=np.zeros(len(others)), bounds=bounds, method="highs")
    if found.status != 0:
        raise ArithmeticError(f"a linear program of the convex hull was not solved: {found.message}")
    return None if -found.fun <= _TIE * max(1.0, float(np.abs(point).max())) else np.asarray(found.x[:d])
