"""What no sound site would say of its core-set, and points with names."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from core_set_sites import EXACT, met, one_site

from dimargin.gossip.program import Report
from dimargin.gossip.programs.candidates import Name, Named
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus

TWO = {"sites": ["other"] * 2, "labels": np.ones(2), "masses": np.ones(2)}


@pytest.fixture
def site():
    return one_site()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.array([[np.nan, 0.0]])}, "X has NaN, infinite"),
        ({"X": np.array([[np.inf, 0.0]])}, "X has NaN, infinite"),
        ({"X": np.array([[1.0, 2.0, 3.0]])}, r"shape \(1, 3\), expected \(1, 2\)"),
        ({"labels": np.array([0.5])}, "labels other than -1, 1"),
        ({"digest": "0123"}, "does not have the digest"),
        ({"value": np.nan}, r"Expected `float` .* at `\$.value`"),
        ({"labels": np.ones(2)}, "shape"),
        ({"rows": np.array([0, 1])}, "shape"),
        ({"masses": np.zeros(1)}, "masses has NaN, infinite or other values"),
        ({"masses": np.array([np.nan])}, "masses has NaN, infinite or other values"),
        ({"sites": []}, "for 0 points"),
        ({"indices": np.array([0, 1]), "indptr": np.array([0, 2]), "X": np.ones(2)}, "the rows here are"),
        ({"X": np.array([[60.0, 0.0]])}, "norm of 60, expected at most 50"),
        ({"sites": ["here"]}, "another site has the name"),
        ({"sites": ["here"], "rows": np.array([7])}, "another site has the name"),
        (TWO | {"rows": np.zeros(2, dtype=np.int64), "X": np.ones((2, 2))}, "names a point twice"),
    ],
)
def test_unsound_messages_are_refused(site, changes, words):
    before = site.chosen
    (report,) = met(site, **changes)
    assert isinstance(report, Report) and report.what == "refused" and report.facts["site"] == "other"
    assert re.search(words, report.facts["reason"])
    assert not met(site)  # not listened to any more
    list(site.wake(2.0, "round"))
    assert site.chosen == before and "other" in site.neighbourhood.refused


def test_one_name_for_two_points_is_refused(site):
    assert not met(site)
    list(site.wake(2.0, "round"))
    assert Name("other", 0) in site.chosen.points.names
    (report,) = met(site, "third", X=np.array([[5.0, 5.0]]))
    assert "row 0 of site 'other' differs from the one that other sites sent" in report.facts["reason"]


def test_messages_of_other_rows_are_left_alone(site):
    assert not met(site, schema="another") and not site._received


SPARSE = {"X": np.array([9.0]), "indices": np.array([1]), "indptr": np.array([0, 1])}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.array([[0.0, 9.0]]), "indices": None, "indptr": None}, "the rows here are"),
        ({"indptr": None}, "not a CSR array"),
        ({"indices": np.array([2])}, "has feature 2, expected less than 2"),
        ({"indices": np.array([-1])}, "indices has"),
        ({"indices": np.array([1], dtype=np.int32)}, "indices is of dtype <i4, expected <i8"),
        ({"indices": np.array([0, 1])}, "not a CSR array"),
        ({"indptr": np.array([0, 1, 1])}, "not a CSR array"),
        ({"indptr": np.array([0, 2])}, "not a CSR array"),
        ({"indptr": np.array([1, 1])}, "not a CSR array"),
        (TWO | {"rows": np.arange(2), "indptr": np.array([0, 2, 1])}, "not a CSR array"),
        ({"X": np.ones((1, 1))}, "not a CSR array"),
        ({"X": np.zeros(1)}, "not in canonical CSR form"),
        ({"X": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 2])}, "not in canonical CSR form"),
        ({"X": np.ones(2), "indices": np.array([1, 1]), "indptr": np.array([0, 2])}, "not in canonical CSR form"),
        ({"X": np.array([np.nan])}, "X has NaN, infinite"),
        ({"X": np.array([60.0])}, "norm of 60"),
    ],
)
def test_sparse_rows_that_are_none_are_refused(changes, words):
    X = sp.csr_array([[0.0, 0.0], [1.0, 0.0]])
    site = CoreSetConsensus("here", X, np.ones(2), replace(EXACT, norm_bound=50.0))
    list(site.start(0.0, ["other"]))
    list(site.wake(1.0, "round"))
    (report,) = met(site, **(SPARSE | changes))
    assert re.search(words, report.facts["reason"]) and "other" in site.neighbourhood.refused


def test_names_of_other_points_are_found():
    X = sp.random_array((20, 6), density=0.5, rng=0, format="csr")
    for rows in (X, X.toarray()):
        one = Named.of("a", 0, rows, np.ones(20))
        assert one.differing(one.take(np.arange(19, -1, -1))) is None
        assert one.differing(Named.of("b", 0, rows * 2, np.ones(20))) is None
        moved = rows.copy()
        moved[[7]] = moved[[7]] * 2 + (0 if sp.issparse(rows) else 1)
        assert one.differing(Named.of("a", 0, moved, np.ones(20)).take([3, 7, 5])) == Name("a", 7)
        assert one.differing(Named.of("a", 0, rows, np.arange(20.0))) == Name("a", 0)
        assert one.differing(Named.of("a", 0, rows, np.ones(20), np.where(np.arange(20) == 9, 2.0, 1.0))) == Name(
            "a", 9
        )
