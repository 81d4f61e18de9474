"""The engine of a contract test: that of the variable DIMARGIN_TEST_ENGINE, one Spark session a process."""

import os
from threading import Event

import pytest
import spark_sessions

from dimargin.engines import LocalEngine


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    reason = spark_sessions.why_no_spark()
    if reason:
        pytest.skip(reason)
    mode = os.environ["DIMARGIN_TEST_ENGINE"]
    spark = spark_sessions.session(mode, tmp_path_factory.mktemp("spark"))
    yield spark
    spark_sessions.stop(spark)


@pytest.fixture(scope="module")
def engine(request):
    """The engine that the tests of a module share."""
    if os.environ["DIMARGIN_TEST_ENGINE"] == "threads":
        yield LocalEngine(2, Event())
        return
    spark = request.getfixturevalue("spark")
    spark_sessions.travels(request.module)
    from dimargin.engines.spark import SparkEngine

    with SparkEngine(spark) as engine:
        yield engine
