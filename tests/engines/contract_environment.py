"""Executors that have not what the driver has.

test_contract.py runs this, with a Python that looks for modules where DIMARGIN_TEST_FOUND says.
"""

import pytest

from dimargin.engines.spark import SparkEngine

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
    "another Python": ("sitecustomize.py", OTHER_PYTHON, "the executors have another one"),
}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_engine_refuses(spark, environment, tmp_path):
    name, text, message = ENVIRONMENTS[environment]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    spark.sparkContext.environment["DIMARGIN_TEST_FOUND"] = str(tmp_path)  # Spark starts another Python for it
    with pytest.raises(RuntimeError, match=message) as caught:
        SparkEngine(spark)
    assert "ship this environment to the executors" in str(caught.value)
