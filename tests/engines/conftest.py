"""The engine of a contract test: threads or, where the variable DIMARGIN_SPARK names a kind of session, Spark."""

import os
from threading import Event

import pytest
import spark_sessions

from dimargin.engines import LocalEngine


@pytest.fixture(scope="module")
def engine(request):
    """The engine that the tests of a module share."""
    if "DIMARGIN_SPARK" not in os.environ:
        yield LocalEngine(2, Event())
        return
    spark = request.getfixturevalue("spark")
    spark_sessions.travels(request.module)
    from dimargin.engines.spark import SparkEngine

    with SparkEngine(spark) as engine:
        yield engine
