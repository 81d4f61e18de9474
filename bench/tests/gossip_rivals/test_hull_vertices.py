"""Vertices of convex hulls, against Quickhull, linear programs, and shapes whose vertices are known."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

from dimargin_bench.gossip_rivals.hull_vertices import check_hull, hull_vertices


def is_inside(point, others):
    """Whether a point is a convex combination of others."""
    A = np.vstack([others.T, np.ones(len(others))])
    found = linprog(np.zeros(len(others)), A_eq=A, b_eq=np.append(point, 1.0), bounds=(0, None), method="highs")
    return found.status == 0


@given(st.integers(1, 16), st.integers(1, 8), st.integers(0, 99), st.booleans())
@settings(max_examples=40)
def test_vertices_are_the_rows_outside_the_hull_of_the_others(n, d, seed, on_a_grid):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, d)).astype(float) if on_a_grid else rng.normal(size=(n, d))
    found = hull_vertices(X)
    _, first = np.unique(X, axis=0, return_index=True)
    distinct = np.sort(first)
    expected = [k for k in distinct if len(distinct) == 1 or not is_inside(X[k], X[distinct[distinct != k]])]
    assert found.tolist() == expected
    assert hull_vertices(sp.csr_array(X)).tolist() == expected


@pytest.mark.parametrize("d", [2, 3, 6, 8, 20])
def test_a_cross_and_what_lies_within(d):
    """Of the cross-polytope, which has 2 d vertices, and rows within it."""
    rng = np.random.default_rng(0)
    inside = rng.normal(size=(30, d))
    inside *= 0.9 / np.abs(inside).sum(axis=1, keepdims=True)
    X = np.concatenate([inside, np.eye(d), -np.eye(d)])
    assert_array_equal(hull_vertices(X), np.arange(30, 30 + 2 * d))
    moved = X @ rng.normal(size=(d, d + 3)) * 1e-6 + 1e3  # flat, in a space of more dimensions, far away
    assert_array_equal(hull_vertices(moved), np.arange(30, 30 + 2 * d))


@pytest.mark.parametrize("d", [3, 7, 8])
def test_rows_on_edges_are_no_vertices(d):
    """Midpoints of the edges of a cross-polytope are as far in many directions as its vertices."""
    vertices = np.concatenate([np.eye(d), -np.eye(d)])
    edges = [(a + b) / 2 for k, a in enumerate(vertices) for b in vertices[:k] if (a + b).any()]
    order = np.random.default_rng(0).permutation(len(edges) + 2 * d)
    X = np.concatenate([edges, vertices])[order]
    assert_array_equal(hull_vertices(X), np.flatnonzero(order >= len(edges)))


def test_few_rows_and_equal_ones():
    assert hull_vertices(np.zeros((0, 3))).tolist() == []
    assert hull_vertices(np.ones((4, 3))).tolist() == [0]
    assert hull_vertices(np.array([[2.0], [1.0], [3.0], [3.0], [1.0]])).tolist() == [1, 2]


def test_hulls_that_would_take_too_long_are_refused():
    check_hull(100_000, 6)
    check_hull(1_000, 100)
    with pytest.raises(ValueError, match="selection='hull' finds the vertices of at most 1000 rows of 7 features"):
        check_hull(1_001, 7)
    with pytest.raises(ValueError, match="at most 100000 rows of 2 features, and all sites together have 100001"):
        check_hull(100_001, 2)
