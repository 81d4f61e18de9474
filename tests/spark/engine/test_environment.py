"""Executors that have not what the driver has."""

import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from dimargin import LinearODMClassifier
from dimargin.spark import LinearODMClassificationModel
from dimargin.spark.engine.jobs import Jobs
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


HERE = {
    "another dimargin": "has another version of dimargin or of Python",
    "no dimargin": "has no dimargin",
    "no pyarrow": "has no pyarrow",
    "another Python": "has another version of dimargin or of Python",
}


@pytest.fixture
def python(request, spark, tmp_path, monkeypatch):
    """A Python with the environment of this name, by which Spark starts its workers."""
    name, text, _ = ENVIRONMENTS[request.param]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    return python


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("python", "reason"), HERE.items(), indirect=["python"], ids=list(HERE))
def test_a_session_on_this_computer_is_refused_before_any_job(spark, python, reason):
    jobs = Jobs(spark)
    with pytest.raises(RuntimeError) as caught:
        jobs.query([(spark.range(3), "look")])
    assert jobs.count == 0 and f"Spark runs tasks by {python}, which {reason}; " in str(caught.value)
    assert f"activate the environment of {sys.executable}, or set PYSPARK_PYTHON" in str(caught.value)
    rows = spark.createDataFrame([(0.0, [1.0]), (1.0, [2.0])], "label double, features array<double>")
    model = LinearODMClassificationModel.fromSklearn(LinearODMClassifier().fit([[1.0], [2.0]], [0.0, 1.0]))
    with pytest.raises(RuntimeError, match="Spark runs tasks by"):
        model.transform(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "message"), [(name, told[-1]) for name, told in ENVIRONMENTS.items()], indirect=["python"],
    ids=list(ENVIRONMENTS),
)  # fmt: skip
def test_the_engine_refuses_executors_elsewhere(spark, python, message, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    for first_job in (
        lambda engine: engine.scatter([1]).collect(),
        lambda engine: engine.query((spark.range(3), "look")),
        lambda engine: engine.memory_of_worker,
    ):
        with pytest.raises(RuntimeError, match=message) as caught, SparkEngine(spark) as engine:
            first_job(engine)
        assert "ship this environment to the executors" in str(caught.value)
