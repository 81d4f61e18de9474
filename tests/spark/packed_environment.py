"""Executors that have no dimargin but that of a packed environment. test_sessions.py runs this."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import spark_sessions
import venv_pack

import dimargin
from dimargin.spark import ODMClassifier

UNNEEDED = [  # on executors
    "pyspark", "cmake", "matplotlib", "PIL", "fontTools", "_polars_runtime*", "hypothesis", "mypy*", "*mypyc*", "pip",
    "networkx", "zenoh", "cryptography", "grpc", "tests",
]  # fmt: skip


@pytest.mark.skipif(
    not Path(dimargin.__file__).is_relative_to(sys.prefix), reason="dimargin is not installed into this environment"
)
def test_executors_train_with_what_was_packed(request, tmp_path, monkeypatch):
    environment = venv_pack.Env(sys.prefix)
    for name in UNNEEDED:
        environment = environment.exclude(f"*/{name}/*")
    archive = environment.pack(str(tmp_path / "environment.tar.gz"), compress_level=0)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    monkeypatch.setenv("PYTHONPATH", "")
    settings = {"spark__archives": f"{archive}#environment", "spark__master": "local-cluster[1,2,1024]"}
    spark = spark_sessions.session("cluster", tmp_path, **settings)
    request.addfinalizer(lambda: spark_sessions.stop(spark))

    def indices(batches):
        from importlib.util import find_spec

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"place": [find_spec("dimargin").origin], "python": [sys.prefix]})

    found = spark.range(2).mapInArrow(indices, "place string, python string").toArrow()
    for place in found["place"].to_pylist() + found["python"].to_pylist():
        assert "/environment" in place
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(float)
    model = ODMClassifier(seed=0).fit(spark.createDataFrame(pd.DataFrame({"features": list(X), "label": y})))
    assert model.status == "converged" and model.toSklearn().score(X, y) > 0.9
