"""Sums of products whose terms cancel, computed as if in twice the precision.

The weights of a linear machine are sums of many support vectors that nearly cancel: with
coefficients of 1e4 and rows of length 100, the sum over ten thousand of them leaves weights near
one with twelve wrong digits of sixteen. Here products are split without error into a head and a
tail (Dekker, Numer. Math. 1971), and heads are cut at a common power of two: sums of the bits above
it are exact in any order (Rump, Ogita and Oishi, SIAM J. Sci. Comput. 2008), and the bits below it
are about 2^-50 of the largest term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.kernels.column_statistics import row_chunks
from dimargin.system.arrays import UNIT, Floats

_ROWS_AT_ONCE = 16384  # The rows of a batch, which bounds the scratch memory.


def weighted_row_sum(X: Any, weights: Floats) -> Floats:
    """Return ``sum_i weights_i X_i`` of dense or CSR rows, of shape (n_features,), in float64.

    Each entry errs by at most ``4 u`` of itself, where u is 2^-53, plus `weighted_row_sum_tail`
    times the sum of its absolute terms.
    """
    head, tail = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for some in row_chunks(X.shape[0], _ROWS_AT_ONCE):
        for part in _column_sum_parts(X[some], weights[some]):
            head, error = _two_sum(head, part)
            tail += error
    return np.asarray(head + tail)


def weighted_row_sum_tail(n: int) -> float:
    """Bound the error of `weighted_row_sum` over n rows, relative to the sums of absolute terms.

    The tails of the products in a batch, and those of the sums of batches, are summed in float64.
    """
    batches = -(-n // _ROWS_AT_ONCE)
    return 4 * UNIT**2 * (min(n, _ROWS_AT_ONCE) + batches**2 + 4)


def polynomial_products_tail(n: int, n_features: int, degree: int) -> float:
    """Bound the error of `polynomial_products` over n columns, relative to sums of absolute terms.

    Each product additionally errs by a few units in its own last place.
    """
    return weighted_row_sum_tail(n) + 4 * UNIT**2 * (degree * (n_features + 4) ** 2 + n)


def polynomial_products(X: Floats, Z: Floats, gamma: float, coef0: float, degree: int, coefficients: Floats) -> Floats:
    """Return ``sum_j coefficients[q, j] (gamma x_i.z_j + coef0)^degree`` of n rows x and m rows z.

    It is of shape (n_outputs, n), the coefficients of (n_outputs, m). Every kernel value is a head
    plus a tail, so that an entry errs by eight units in its own last place, plus
    `polynomial_products_tail` times the sum of its absolute terms.
    """
    out = np.empty((len(coefficients), len(X)))
    # Chunks of at most 2^18 kernel values bound the scratch memory.
    for some in row_chunks(len(X), max(1, 2**18 // max(1, len(Z)))):
        head, tail = _polynomial(
            np.asarray(X[some], dtype=np.float64), np.asarray(Z, dtype=np.float64), gamma, coef0, degree
        )
        for own, c in zip(out, coefficients, strict=True):
            own[some] = weighted_row_sum(head.T, c) + tail @ c
    return out


def _polynomial(X: Floats, Z: Floats, gamma: float, coef0: float, degree: int) -> tuple[Floats, Floats]:
    head, tail = np.zeros((len(X), len(Z))), np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        product, error = _two_product(x[:, None], z[None])
        head, carried = _two_sum(head, product)
        tail += error + carried
    base, error = _two_product(np.array(gamma), head)
    base, carried = _two_sum(base, np.full_like(base, coef0))
    rest = gamma * tail + error + carried
    head, tail = base, rest
    for _ in range(degree - 1):
        product, error = _two_product(head, base)
        head, tail = product, error + head * rest + tail * base
    return head, tail


def _column_sum_parts(X: Any, weights: Floats) -> list[Floats]:
    """Return the column sums of weighted rows as three parts, in falling size; two are exact."""
    if sp.issparse(X):
        factors = np.repeat(weights, np.diff(X.indptr))
        values, columns, n = X.data.astype(np.float64), X.indices, X.shape[1]

        def sums(terms: Floats) -> Floats:
            return np.asarray(np.bincount(columns, terms, n), dtype=np.float64)
    else:
        factors, values = weights[:, None], np.asarray(X, dtype=np.float64)

        def sums(terms: Floats) -> Floats:
            return np.asarray(terms.sum(axis=0))

    terms, tails = _two_product(factors, values)
    parts = []
    for _ in range(2):
        cut = _cutting_power(terms, X.shape[0])
        heads = (terms + cut) - cut
        parts.append(sums(heads))
        terms = terms - heads
    return [*parts, sums(terms + tails)]


def _cutting_power(terms: Floats, n: int) -> float:
    """Return a power of two whose addition cuts `n` terms to leading bits with an exact sum."""
    largest = float(np.abs(terms).max(initial=0.0))
    return float(np.ldexp(1.0, int(np.frexp(largest)[1]) + int(np.ceil(np.log2(n + 2))))) if largest else 0.0


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a sum and its rounding error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a product and its rounding error (Dekker)."""
    product = a * b
    (a_head, a_tail), (b_head, b_tail) = _split_in_halves(a), _split_in_halves(b)
    return product, ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


def _split_in_halves(a: Floats) -> tuple[Floats, Floats]:
    scaled = (2.0**27 + 1) * a
    head = scaled - (scaled - a)  # Head and tail have 26 bits each.
    return head, a - head
