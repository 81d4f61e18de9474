"""Executors that have not what the driver has. test_contract.py runs this, with one of them at a time."""

import os

import pytest

from dimargin.engines.spark import SparkEngine


def test_the_engine_refuses_it(spark):
    with pytest.raises(RuntimeError, match=os.environ["DIMARGIN_TEST_MATCH"]) as caught:
        SparkEngine(spark)
    assert "ship this environment to the executors" in str(caught.value)
