"""A small session for all tests, classic or, with DIMARGIN_SPARK=connect, over Spark Connect; all on the loopback."""

import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

import dimargin


def pytest_collection_modifyitems(items):
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="Spark needs Java, and there is none"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(folder)}
    os.environ["SPARK_TESTING"] = "1"  # a Connect server on any free port
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.PYTHONPATH": str(Path(dimargin.__file__).parent.parent),
    }
    builder = SparkSession.builder.config(map=settings)
    mode = os.environ.get("DIMARGIN_SPARK", "classic")
    builder = {"classic": lambda: builder.master("local[2]"), "connect": lambda: builder.remote("local[2]")}[mode]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)  # Connect, of settings its server has had
        session = builder.getOrCreate()
    yield session
    session.stop()
