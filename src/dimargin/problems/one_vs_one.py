"""One-vs-one classification: a binary problem for each pair of classes, on their rows alone.

Pairs are in the order of `itertools.combinations`, and the second class of a pair is the positive
one. A row takes part in ``n_classes - 1`` problems and has a coefficient in each: first those
against the classes before its own, then those against the classes after it, as in LIBSVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dimargin.system.arrays import Floats, Indices


def pairs_of(n_classes: int) -> Indices:
    """Return the indices of the two classes of every pair, of shape (n_pairs, 2).

    Examples
    --------
    >>> pairs_of(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.column_stack(np.triu_indices(n_classes, 1))


def pair_numbers(n_classes: int) -> Indices:
    """Return the numbers of each class's pairs, of shape (n_classes, n_classes - 1).

    Entry ``[c, k]`` is the pair to which coefficient k of a row of class c belongs.

    Examples
    --------
    >>> pair_numbers(3)
    array([[0, 1],
           [0, 2],
           [1, 2]])
    """
    numbers, (a, b) = np.zeros((n_classes, n_classes - 1), dtype=np.int64), pairs_of(n_classes).T
    numbers[a, b - 1] = numbers[b, a] = np.arange(len(a))
    return numbers


def slots_of(pairs: Indices) -> Indices:
    """Return pairs' slots among the coefficients of rows of either class, of shape (n_pairs, 2).

    Examples
    --------
    >>> slots_of(pairs_of(3)).tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    return np.asarray(pairs[:, ::-1] - [1, 0])


def sums_of_pairs(
    coefficients: Floats, classes: Sequence[Indices], width: int, sums: Callable[[Indices, Floats], Floats]
) -> Floats:
    """Compute sums over the rows of each pair, of shape (n_pairs, width).

    Parameters
    ----------
    coefficients : ndarray of shape (n_classes - 1, n)
    classes : sequence of ndarray
        Indices of the rows of each class.
    width : int
    sums : callable
        Called once per class, for all pairs of this class, with indices of rows and their
        coefficients of shape (n_classes - 1, n_rows); returns sums of shape (n_classes - 1, width).
    """
    found = np.zeros((len(pairs_of(len(classes))), width))
    for own, rows in zip(pair_numbers(len(classes)), classes, strict=True):
        found[own] += sums(rows, coefficients[:, rows])
    return found


def smallest_of(values: Floats, numbers: Indices) -> Floats:
    """Return the smallest decision value of each class against another one.

    It is positive for the class that wins against all others, if there is one, and changes
    continuously with the values. Parameters and shape are those of `votes_of`.

    Examples
    --------
    >>> smallest_of(np.array([[1.0], [-1.0], [2.0]]), pair_numbers(3))
    array([[-1., -2., -1.]])
    """
    smallest = np.empty((values.shape[1], len(numbers)))
    for c, own in enumerate(numbers):
        # A class is the second, positive one of its first c pairs.
        before = values[own[:c]].min(axis=0, initial=np.inf)
        smallest[:, c] = np.minimum(before, -values[own[c:]].max(axis=0, initial=-np.inf))
    return smallest


def votes_of(values: Floats, numbers: Indices) -> Floats:
    """Return the votes for each class, plus less than half for the sum of its values.

    The votes, of shape (n_rows, n_classes), are bitwise those of scikit-learn's
    `OneVsOneClassifier`.

    Parameters
    ----------
    values : ndarray of shape (n_pairs, n_rows)
        Decision values of all pairs; positive ones are for the second class.
    numbers : ndarray of shape (n_classes, n_classes - 1)
        The return value of `pair_numbers`.

    Examples
    --------
    >>> votes_of(np.array([[1.0], [-1.0], [2.0]]), pair_numbers(3)).round(3)
    array([[1.   , 0.833, 1.167]])
    """
    votes = np.empty((values.shape[1], len(numbers)))
    for c, own in enumerate(numbers):
        towards = values[own]
        wins = (towards[:c] > 0).sum(axis=0) + (towards[c:] <= 0).sum(axis=0)
        np.negative(towards[c:], out=towards[c:])
        sums = np.add.accumulate(towards, out=towards)[-1]  # Unlike sum, it always adds one by one.
        votes[:, c] = wins + sums / (3 * (np.abs(sums) + 1))
    return votes


PAIR_SCORES: dict[str, Callable[[Floats, Indices], Floats]] = {"smallest": smallest_of, "votes": votes_of}
"""Rules by which the decision values of pairs give one for each class."""


def score_gradients(rule: str, values: Floats, gradients: Floats, numbers: Indices) -> Floats:
    """Return gradients of scores, of shape (n_classes, n_rows, n_features), from those of the pairs' values."""
    found = np.empty((len(numbers), *gradients.shape[1:]))
    for c, own in enumerate(numbers):
        signs = np.where(np.arange(len(own)) < c, 1.0, -1.0)[:, None]
        towards = signs * values[own]
        slopes = np.arange(len(own))[:, None] == towards.argmin(axis=0)  # The smallest value is that of one pair.
        if rule == "votes":  # The sum s of the values adds s / (3 (|s| + 1)) to whole numbers.
            slopes = 1 / (3 * (np.abs(towards.sum(axis=0, keepdims=True)) + 1) ** 2)
        found[c] = np.einsum("pn,pnd->nd", signs * slopes, gradients[own])
    return found
