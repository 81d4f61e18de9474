"""The history of certificates: it stays short, and covers the whole time evenly."""

import numpy as np
import pytest

from dimargin.gossip.sites.certificate_history import MAX_ENTRIES, CertificateHistory


def status(objective, dual, number=1):
    return {"round": number, "objective": objective, "dual_objective": dual}


def test_only_new_and_finite_certificates_are_recorded():
    history = CertificateHistory()
    for bounds in ([], []), ([None], [0.5]), ([np.inf], [0.5]), ([2.0, 4.0], [1.0, 3.0]), ([2.0, 4.0], [1.0, 3.0]):
        history.add(1.0, status(*bounds))
    history.add(2.0, {"round": 1})  # A site that has not agreed yet.
    assert history.entries == [{"seconds": 1.0, "round": 1, "objective": 3.0, "dual_objective": 2.0, "gap": 0.5}]


@pytest.mark.parametrize("n", [MAX_ENTRIES, MAX_ENTRIES + 1, 5000])
def test_a_long_history_stays_even(n):
    history = CertificateHistory()
    for k in range(n):
        history.add(float(k), status([2.0 + 1 / (k + 1)], [2.0], k))
    seconds = [entry["seconds"] for entry in history.entries]
    assert MAX_ENTRIES / 2 <= len(seconds) <= MAX_ENTRIES and seconds[0] == 0
    gaps = np.diff(seconds)
    assert gaps.max() <= 2 * gaps.min() and n - seconds[-1] <= 1 + gaps.max()
