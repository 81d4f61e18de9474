"""A small session for all tests, local or, with DIMARGIN_SPARK=connect or cluster, another one."""

import os

import pytest
import spark_sessions


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(spark_sessions.needs_spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    mode = os.environ.get("DIMARGIN_SPARK", "local")
    session = spark_sessions.session(mode, tmp_path_factory.mktemp("spark"), spark__sql__shuffle__partitions="2")
    yield session
    spark_sessions.stop(session)
