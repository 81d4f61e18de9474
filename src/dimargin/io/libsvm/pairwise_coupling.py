"""Probabilities of classes from those of every pair, as LIBSVM computes them."""

from __future__ import annotations

import numpy as np

from dimargin.problems.one_vs_one import pairs_of
from dimargin.system.arrays import Floats


def coupled_probabilities(first: Floats, n_classes: int) -> Floats:
    """Return probabilities of the classes, of shape (n, n_classes), from those of the first class of every pair.

    They minimise ``sum_{a != b} (r[b, a] p[a] - r[a, b] p[b])^2``, where r[a, b] is the probability of class a in the
    pair a, b, up to LIBSVM's tolerance (T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class
    classification by pairwise coupling", JMLR 5, 2004, algorithm 2). `first` has the order of `pairs_of`.
    """
    if n_classes == 2:
        return np.column_stack([first[:, 0], 1 - first[:, 0]])
    of_pairs, (a, b) = np.zeros((len(first), n_classes, n_classes)), pairs_of(n_classes).T
    of_pairs[:, a, b], of_pairs[:, b, a] = first, 1 - first
    quadratic = -of_pairs * of_pairs.transpose(0, 2, 1)
    quadratic[:, range(n_classes), range(n_classes)] = (of_pairs**2).sum(axis=1)
    found, left = np.full((len(first), n_classes), 1 / n_classes), np.arange(len(first))
    for _ in range(max(100, n_classes)):  # These are LIBSVM's number of steps, and its tolerance.
        p = found[left]
        slope = np.einsum("nij,nj->ni", quadratic, p)
        value = (p * slope).sum(axis=1)
        is_left = np.abs(slope - value[:, None]).max(axis=1) >= 0.005 / n_classes
        left, quadratic, p, slope, value = (array[is_left] for array in (left, quadratic, p, slope, value))
        for t in range(n_classes):
            step = (value - slope[:, t]) / quadratic[:, t, t]
            p[:, t] += step
            value = (value + step * (step * quadratic[:, t, t] + 2 * slope[:, t])) / (1 + step) ** 2
            slope = (slope + step[:, None] * quadratic[:, t]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
        found[left] = p
    return found
