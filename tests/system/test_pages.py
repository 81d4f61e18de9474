"""Memory for arrays that are freed one by one."""

import gc
import os
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.system.pages import Pages


@given(
    sizes=st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["u1", "i4", "f8"])), max_size=20),
    on_disk=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_arrays_are_zero_and_apart(tmp_path_factory, sizes, on_disk):
    pages = Pages(tmp_path_factory.getbasetemp() if on_disk else None)
    arrays = [pages.empty((size, 2), kind) for size, kind in sizes]
    assert all(not array.any() and array.flags.aligned for array in arrays)
    for number, array in enumerate(arrays):
        array[...] = number + 1
    assert all((array == number + 1).all() for number, array in enumerate(arrays))


def test_files_have_no_name_and_are_freed_with_their_arrays(tmp_path):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    pages = Pages(tmp_path)
    arrays = [pages.copy(np.arange(2**21)) for _ in range(4)]
    assert not list(tmp_path.iterdir()) and open_files() > before
    assert all(array.sum() == 2**20 * (2**21 - 1) for array in arrays)
    del arrays, pages
    gc.collect()
    assert open_files() == before


def test_a_full_disk_is_an_error(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    try:
        with pytest.raises(OSError, match=r"no room for \d+ bytes: .*") as failed:
            Pages(tmp_path).empty(10, float)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.filename == str(tmp_path) and not list(tmp_path.iterdir())
