"""Values as JSON and arrays: what comes back is what went, and nothing else is made."""

import numpy as np
import pytest
import scipy.sparse as sp

from dimargin.system.value_tree import decode, encode

VALUES = [
    None,
    True,
    -3,
    1e-300,
    "ä",
    [1, (2, [None])],
    {"a": 1.5, 3: {"b": (1,)}, "list": []},
    np.arange(6.0).reshape(2, 3),
    np.array([True, False]),
    np.array(["ham", "ä"]),
    np.array(["ham", None, 3], dtype=object),
    [np.arange(3), np.float32([1.5])],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_come_back(value):
    arrays = {}
    back = decode(encode(value, "here", arrays), arrays)
    assert repr(back) == repr(value) and type(back) is type(value)
    assert all(name.startswith("here") for name in arrays)


def test_other_values_are_refused_or_left_to_the_caller():
    with pytest.raises(TypeError, match=r"here\.1 cannot be stored in a model file: \{1, 2\}"):
        encode([0, {1, 2}], "here", {})
    with pytest.raises(ValueError, match=r"unknown kind of value: \['set'\]"):
        decode({"list": [{"set": [1, 2]}]}, {})
    encoded = encode([{1, 2}], "here", {}, lambda value, index, arrays: {"set": sorted(value)})
    assert encoded == {"list": [{"set": [1, 2]}]}
    assert decode(encoded, {}, lambda value, arrays: set(value["set"])) == [{1, 2}]


@pytest.mark.parametrize("exact", [False, True])
def test_numbers_of_numpy_keep_their_type_where_asked(exact):
    for value, plain in ((np.float32(1.5), 1.5), (np.int64(3), 3), (np.bool_(True), True), (np.str_("a"), "a")):
        arrays = {}
        back = decode(encode([value], "here", arrays, exact=exact), arrays)
        assert back == [value] and type(back[0]) is (type(value) if exact else type(plain))


def test_keys_of_numpy_do_not_take_one_another_s_place():
    value = {np.int64(1): np.int64(10), np.int64(2): np.int64(20), (np.float32(3),): np.ones(2), "4": {np.int8(5): 6}}
    for exact in (False, True):
        arrays = {}
        back = decode(encode(value, "here", arrays, exact=exact), arrays)
        assert repr(back) == repr(value) if exact else list(back) == [1, 2, (3.0,), "4"]
        assert back[1] == 10 and back[2] == 20 and back[(3.0,)].tolist() == [1, 1] and back["4"] == {5: 6}


def test_rows_come_back():
    X = sp.csr_array(np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]], dtype=np.float32))
    for exact in (False, True):
        arrays = {}
        back = decode(encode((X, 1), "here", arrays, exact=exact), arrays)[0]
        assert type(back) is sp.csr_array and back.dtype == X.dtype and (back.toarray() == X.toarray()).all()


def test_trees_of_the_first_checkpoints_are_read():
    arrays = {"0": np.array(2.5), "1": np.array([1.0, 2.0]), "2": np.array([1, 0]), "3": np.array([0, 1, 2])}
    rows = {"csr": {"tuple": [{"array": 1}, {"array": 2}, {"array": 3}, {"tuple": [2, 2]}]}}
    number, found = decode({"list": [{"scalar": 0}, rows]}, arrays)
    assert (type(number), number) == (np.float64, 2.5) and found.toarray().tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("dtype", ["<U500000000", "<U100000000", "(3,)U1", "<f8", "S3"])
def test_labels_that_would_fill_the_memory_or_are_none(dtype):
    with pytest.raises(ValueError, match="labels of type"):
        decode({"labels": ["ham", "spam"], "dtype": dtype}, {})


@pytest.mark.parametrize(
    "offsets", [[0, 2, 0], [0, 2, -1], [0, 3, 2], [1, 1, 2], [0.0, 1.0, 2.0], [[0, 1, 2]]], ids=repr
)
def test_offsets_of_sparse_rows_rise_from_zero(offsets):
    """SciPy lets some of these pass, and writes beyond the ends of arrays when it sorts such rows."""
    arrays = {}
    encoded = encode(sp.csr_array([[1.0, 0.0], [0.0, 2.0]]), "vectors", arrays)
    assert decode(encoded, arrays).toarray().tolist() == [[1, 0], [0, 2]]
    arrays["vectors.indptr"] = np.array(offsets)
    with pytest.raises(ValueError, match="offsets of sparse rows must start at zero"):
        decode(encoded, arrays)
