"""Solvers are called with one thread for linear algebra, as the estimators call them."""

import pytest

from dimargin.system.threads import single_threaded_blas


@pytest.fixture(autouse=True)
def one_blas_thread():
    with single_threaded_blas():
        yield
