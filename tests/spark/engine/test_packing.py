import json
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.spark.engine.packing import Packing

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
ARRAYS = st.sampled_from(["f4", "f8", "i4", "i8", "u8", "?"]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0))
)
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text())


@dataclass(frozen=True)
class Known:
    number: int
    values: object


@dataclass(frozen=True)
class Unknown:
    number: int


PACKING = Packing((Known, KernelMatrix, RowTransform, Kernel))


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        same(list(found.values()), list(expected.values()))
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        assert_array_equal(found, expected)
    elif isinstance(expected, Known):
        same(vars(found), vars(expected))
    else:
        assert found == expected or (found != found and expected != expected)


@given(
    st.recursive(
        PLAIN | ARRAYS,
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner) | st.builds(Known, PLAIN, inner)
        ),
        max_leaves=8,
    )
)
def test_what_is_packed_is_unpacked_the_same(value):
    same(PACKING.unpack(PACKING.pack(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.int64(3),
        np.bool_(True),
        float("nan"),
        float("inf"),
        np.float32,
        np.asfortranarray(np.eye(3)),
    ],
)
def test_so_is(value):
    same(PACKING.unpack(PACKING.pack([value])), [value])


def test_rows_and_kernels_are_themselves_again():
    X = sp.csr_array(np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 3.0]]))
    matrix = KernelMatrix.of(X, Kernel("rbf", gamma=0.5)).take(np.array([2, 0]))
    rows, again = PACKING.unpack(PACKING.pack((X, matrix)))
    assert_array_equal(rows.toarray(), X.toarray())
    assert_array_equal(again.block(np.arange(2), np.arange(2)), matrix.block(np.arange(2), np.arange(2)))


@pytest.mark.parametrize("value", [Unknown(3), np.array([Unknown(3)]), {1, 2}, print, sp.coo_array(np.eye(2))])
def test_nothing_else_is_packed(value):
    with pytest.raises(TypeError, match=r"a value of .* cannot be packed"):
        PACKING.pack([value])


def test_an_object_of_another_class_is_not_made():
    with pytest.raises(ValueError, match=r"an object of '.*Unknown' cannot be unpacked"):
        PACKING.unpack(Packing((Unknown,)).pack(Unknown(3)))


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    class Evil:
        def __reduce__(self):
            return (tmp_path / "done").touch, ()

    with open(tmp_path / "evil.npz", "wb") as file:
        tree = np.frombuffer(json.dumps({"array": 0}).encode(), np.uint8)
        np.savez(file, **{"value": tree, "0": np.array([Evil()], dtype=object)})
    (tmp_path / "done").unlink(missing_ok=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        PACKING.unpack((tmp_path / "evil.npz").read_bytes())
    assert not (tmp_path / "done").exists()
