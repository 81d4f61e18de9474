"""Binary problems of a classification by one against one: a problem for every pair of classes, on their rows alone.

Pairs are in the order of `itertools.combinations`, and the second class of a pair is the positive one. A row takes part
in ``n_classes - 1`` of them, so that it has as many coefficients: those against the classes before its own come first,
then those against the classes behind it, as in LIBSVM.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dimargin.system.arrays import Floats, Indices


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """Return the indices of the two classes of every pair.

    Examples
    --------
    >>> pairs_of(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(n_classes), 2))


def pair_numbers(n_classes: int) -> Indices:
    """Return the numbers of the pairs that each class takes part in, of shape (n_classes, n_classes - 1).

    Entry ``[c, k]`` is the pair to which coefficient k of a row of class c belongs.

    Examples
    --------
    >>> pair_numbers(3)
    array([[0, 1],
           [0, 2],
           [1, 2]])
    """
    numbers = np.zeros((n_classes, n_classes - 1), dtype=np.int64)
    for number, (a, b) in enumerate(pairs_of(n_classes)):
        numbers[a, b - 1] = numbers[b, a] = number
    return numbers


def coefficients_of(signed: Floats, pair: tuple[int, int], rows: tuple[slice, slice]) -> Floats:
    """Return the coefficients of a pair, of the rows of its first class and then of its second.

    Parameters
    ----------
    signed : ndarray of shape (n_classes - 1, n)
        Coefficients times labels of all rows.
    pair : tuple of int
    rows : tuple of slice
        Where the rows of the two classes are.
    """
    (a, b), (first, second) = pair, rows
    return np.concatenate([signed[b - 1, first], signed[a, second]])


def set_coefficients(signed: Floats, pair: tuple[int, int], rows: tuple[slice, slice], values: Floats) -> None:
    """Set, in place, the coefficients that `coefficients_of` returns."""
    (a, b), (first, second) = pair, rows
    n_first = first.stop - first.start
    signed[b - 1, first], signed[a, second] = values[:n_first], values[n_first:]
