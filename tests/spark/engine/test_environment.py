"""Executors that have not what the driver has."""

import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from dimargin.spark.engine.spark import SparkEngine

HIDDEN = """
import importlib.metadata

def version(name, known=importlib.metadata.version):
    if name == "dimargin":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

importlib.metadata.version = version
"""
OTHER_PYTHON = """
import collections, sys

fields = "major minor micro releaselevel serial"
sys.version_info = collections.namedtuple("version_info", fields)(3, 5, 0, "final", 0)
"""
ENVIRONMENTS = {
    "another dimargin": (
        "dimargin-99.0.dist-info/METADATA",
        "Name: dimargin\nVersion: 99.0\n",
        "has dimargin 99.0 with",
    ),
    "no dimargin": ("sitecustomize.py", HIDDEN, "an executor has dimargin .none. with"),
    "no pyarrow": (
        "pyarrow.py",
        """raise ModuleNotFoundError("No module named 'pyarrow'")""",
        "the Python of an executor has no pyarrow",
    ),
    "another Python": ("sitecustomize.py", OTHER_PYTHON, "the executors have a different one"),
}


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_engine_refuses(spark, environment, tmp_path, monkeypatch):
    name, text, message = ENVIRONMENTS[environment]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))  # Spark starts workers of this
    for first_job in (
        lambda engine: engine.scatter([1]).collect(),
        lambda engine: engine.query((spark.range(3), "look")),
        lambda engine: engine.memory_of_worker,
    ):
        with pytest.raises(RuntimeError, match=message) as caught, SparkEngine(spark) as engine:
            first_job(engine)
        assert "ship this environment to the executors" in str(caught.value)
