"""Rows and their transforms in model files, written and read without scikit-learn."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dimargin.io.models.model_values import decode_transform, encode_transform
from dimargin.kernels.functions import KERNEL_NAMES, Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.system.value_tree import decode, encode

LIGHT = """
import sys
import numpy as np, scipy.sparse as sp
from pathlib import Path
from dimargin.io.models.model_format import Step, read_raw, write_model
from dimargin.system.value_tree import decode
from dimargin.io.models.model_values import decode_transform, encode_transform
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform

X = np.array([[0.0, 1.0], [2.0, 0.0]])
values = {"rows": sp.csr_array(X), "transform": RowTransform.fit(X, Kernel("rbf", gamma=0.5))}
write_model(sys.argv[1], [Step("machine", "Unknown", {}, values)], encode_other=encode_transform)
header, arrays = read_raw(Path(sys.argv[1]))
attributes = header["steps"][0]["attributes"]
back = {name: decode(value, arrays, decode_transform) for name, value in attributes.items()}
assert (back["rows"].toarray() == X).all() and repr(back["transform"]) == repr(values["transform"])
print(sorted({"sklearn", "pyarrow", "pandas", "matplotlib", "networkx"} & set(sys.modules)))
"""


def there_and_back(value):
    arrays = {}
    encoded = encode(value, "here", arrays, encode_transform)
    assert all(name.startswith("here") for name in arrays)
    return decode(encoded, arrays, decode_transform)


def test_a_process_without_scikit_learn_writes_and_reads_rows(tmp_path):
    done = subprocess.run([sys.executable, "-c", LIGHT, tmp_path / "m"], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@given(
    name=st.sampled_from(KERNEL_NAMES),
    gamma=st.floats(1e-3, 1e3),
    degree=st.integers(1, 5),
    size=st.floats(1e-3, 1e3),
    storage=st.sampled_from([np.asarray, sp.csr_array]),
    seed=st.integers(0, 100),
)
def test_a_transform_comes_back(name, gamma, degree, size, storage, seed):
    X = storage(size * np.random.default_rng(seed).random((5, 3)))
    transform = RowTransform.fit(X, Kernel(name, gamma, degree, 0.5))
    again, rows = there_and_back([transform, X])
    assert (again.kernel, again.dtype, again.difference, again.size) == (
        transform.kernel, transform.dtype, transform.difference, transform.size,
    )  # fmt: skip
    assert_array_equal(again.center, transform.center)
    assert type(rows) is type(X) and np.array_equal(sp.csr_array(rows).toarray(), sp.csr_array(X).toarray())


OTHERS = [
    sp.csc_array(np.eye(2)), sp.coo_array(np.eye(2)), {1, 2}, Kernel("rbf"),
    RowTransform(Kernel("rbf"), None, np.float64, False, 1.0, offset=1.0),
]  # fmt: skip


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="here cannot be stored in a model file"):
        there_and_back(value)


def test_other_kinds_are_refused():
    with pytest.raises(ValueError, match=r"unknown kind of value: \['router'\]"):
        decode_transform({"router": {}}, {})
    for lie in ({"name": "x"}, {"name": "rbf", "command": "x"}):
        with pytest.raises((ValueError, TypeError)):
            decode_transform({"row_transform": {"kernel": lie, "center": None, "dtype": "float64"}}, {})
