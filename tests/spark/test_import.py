"""Without pyspark the package works, and its Spark part says what to install."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules["pyspark"] = None
import dimargin
dimargin.ODMClassifier()
try:
    import dimargin.spark
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_pyspark_the_import_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stdout.strip() == "dimargin.spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'", (
        done.stderr
    )


def test_the_package_does_not_import_pyspark_by_itself():
    code = "import sys, dimargin, dimargin.cli; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_modules_of_the_engine_load_neither_pyspark_ml_nor_scikit_learn():
    """Every Python process of an executor imports them."""
    pytest.importorskip("pyspark")
    code = "import sys, dimargin.spark.engine.frames; print({'pyspark.ml', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
