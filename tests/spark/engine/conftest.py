"""The engine of a test of the contract: threads, or a Spark session."""

import os
from threading import Event

import pytest
import spark_sessions

from dimargin.shards.local_engine import LocalEngine


def pytest_generate_tests(metafunc):
    """Give a test that asks for an engine each of them; where DIMARGIN_SPARK names a kind of session, that alone."""
    if "engine" in metafunc.fixturenames and metafunc.module.__name__ == "test_contract":
        spark = pytest.param("spark", marks=pytest.mark.slow)
        engines = ["spark"] if "DIMARGIN_SPARK" in os.environ else ["threads", spark]
        metafunc.parametrize("engine", engines, indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request):
    """The engine that the tests of a module share."""
    if getattr(request, "param", "spark") == "threads":
        yield LocalEngine(2, Event())
        return
    spark = request.getfixturevalue("spark")
    spark_sessions.travels(request.module)
    from dimargin.spark.engine.spark import SparkEngine

    with SparkEngine(spark) as engine:
        yield engine
