"""Schemas of the rows of sites: unions in any order, scaling, differences by name, weights in another schema."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from linear_sites import TERMS, three_classes
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.schema import Schema

values = st.lists(st.lists(st.floats(-9, 9), min_size=2, max_size=2), min_size=1, max_size=4)


@given(values, values, values)
def test_unions_do_not_depend_on_order(a, b, c):
    one, two, three = (
        Schema.of(np.array(rows), np.array([f"label{k}" for k in range(len(rows))]), TERMS) for rows in (a, b, c)
    )
    assert one.union(two).union(three).digest == three.union(one.union(two)).digest
    assert one.union(two).digest == two.union(one).digest and one.union(one).digest == one.digest


orders = st.permutations(range(3))


@given(st.lists(orders, min_size=3, max_size=3))
def test_unions_do_not_depend_on_who_has_which_order_of_columns(found):
    X, names = np.random.default_rng(0).normal(size=(6, 3)), np.array(["b", "c", "a"])
    one, two, three = (
        Schema.of(X[k : k + 2, order], np.arange(2), TERMS, tuple(names[order])) for k, order in enumerate(found)
    )
    united = one.union(two).union(three)
    assert united.digest == three.union(one.union(two)).digest == three.union(two).union(one).digest
    assert united.feature_names == min(schema.feature_names for schema in (one, two, three))
    place = [list(names).index(name) for name in united.feature_names]
    assert_array_equal(united.low, X[:4].min(axis=0)[place])
    assert_array_equal(united.high, X[:4].max(axis=0)[place])
    kept = two.union(one, limits=False)
    assert kept.feature_names == two.feature_names and kept.low.tolist() == two.low.tolist()


def test_rows_and_weights_move_to_another_order_of_columns_and_answer_as_before():
    X, y = three_classes()
    order = [2, 0, 3, 1]
    here = Schema.of(X, y, TERMS, tuple("abcd"))
    there = Schema.of(3 * X[:, order] - 40, y, TERMS, tuple("cadb"))
    wider = here.union(there)
    weights = np.random.default_rng(1).normal(size=(3, 5))
    for before, rows in ((here, X), (there, X[:, order])):
        arranged = wider.arranged(rows, before.feature_names)
        assert_array_equal(arranged, X)
        assert_array_equal(wider.arranged(sp.csr_array(rows), before.feature_names).toarray(), X)
        old, new = before.scaled(rows) @ weights.T, wider.scaled(arranged) @ wider.moved(weights, before).T
        assert_allclose(new, old, atol=1e-9)


@pytest.mark.parametrize("kind", ["minmax", "maxabs", "none"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_scaled_as_scikit_learn_scales_them(kind, sparse):
    X, y = three_classes()
    X[:, 2] = 7.0
    if sparse and kind == "minmax":
        pytest.skip("sparse rows keep their zeros, and are scaled by their largest value")
    schema = Schema.of(sp.csr_array(X) if sparse else X, y, {"scaling": kind})
    expected = {"minmax": MinMaxScaler, "maxabs": MaxAbsScaler}[kind]().fit_transform(X) if kind != "none" else X
    found = schema.scaled(sp.csr_array(X) if sparse else X)
    assert_allclose(found.toarray() if sparse else found, expected, atol=1e-12)


def test_weights_move_to_a_wider_schema_and_answer_as_before():
    X, y = three_classes()
    two = y != "cat"
    before = Schema.of(X[two][:, :3], y[two], TERMS)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(1, 4))
    wider = Schema.of(np.column_stack([X[:, :3] * 3 - 40, X[:, 3]]), y, TERMS).union(before)
    moved = wider.moved(weights, before)
    assert moved.shape == (3, 5)
    rows = np.column_stack([X[:, :3], np.zeros(len(X))])
    old, new = before.scaled(X[:, :3]) @ weights.T, wider.scaled(rows) @ moved.T
    assert_allclose(new[:, [1]], old, atol=1e-9)
    assert_allclose(new[:, [0]], -old, atol=1e-9)
    assert_array_equal(new[:, 2], 0)
    same = before.union(Schema.of(X[two][:, :3] * 2, y[two], TERMS))
    assert_allclose(same.scaled(X[:, :3]) @ same.moved(weights, before).T, old, atol=1e-9)


def test_differences_are_named():
    X, y = three_classes(20)
    here = Schema.of(X, y, TERMS, ("a", "b", "c", "d"))
    for other, text in (
        (Schema.of(X, y, TERMS | {"alpha": 0.5}, ("a", "b", "c", "d")), "alpha is 0.5 there and 0.01 here"),
        (Schema.of(X, y, TERMS, ("a", "b", "x", "d")), "its features differ: 'x' only there, 'c' only here"),
        (Schema.of(X[:, :3], y, TERMS, ("a", "b", "c")), "its features differ: 'd' only here"),
        (
            Schema.of(X, y, TERMS, tuple("efgh")),
            "differ: 'e', 'f', 'g' and 1 more only there, 'a', 'b', 'c' and 1 more",
        ),
        (Schema.of(X, y, TERMS), "its features have no names there and names here"),
        (Schema.of(X, np.arange(20), TERMS, ("a", "b", "c", "d")), "its labels, such as 0, are of another kind"),
    ):
        assert text in here.difference(other)
    assert here.difference(Schema.of(X[:0], y[:0], TERMS, ("a", "b", "c", "d"))) is None
    assert here.difference(Schema.of(X, y, TERMS, ("d", "b", "a", "c"))) is None
    with pytest.raises(ValueError, match="two of its features have the same name"):
        Schema.of(X, y, TERMS, ("a", "b", "a", "d"))


def test_schemas_survive_bytes():
    X, y = three_classes(20)
    for schema in (Schema.of(X, y, TERMS, ("a", "b", "c", "d")), Schema.of(X, np.arange(20) / 2, TERMS)):
        assert Schema.from_plain(unpack(pack(schema.plain()))).digest == schema.digest


def test_rows_wider_than_a_message_are_refused():
    X = sp.csr_array((np.ones(1), ([0], [LIMITS.features])), shape=(1, LIMITS.features + 1))
    with pytest.raises(ValueError, match="rows have 4194305 features, expected at most 4194304"):
        Schema.of(X, np.array(["a"]), TERMS)
    assert Schema.of(X[:, 1:], np.array(["a"]), TERMS).n_features == LIMITS.features
