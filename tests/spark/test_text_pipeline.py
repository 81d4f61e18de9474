"""A pipeline from a column of texts to classes, as the guide to sparse text shows it."""

import numpy as np
import pytest
import scipy.sparse as sp
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import IDF, HashingTF, Normalizer, RegexTokenizer, StringIndexer

import dimargin as dm
from dimargin.spark import LinearSVMClassifier

WORDS = {
    "animals": ["cat", "dog", "horse", "goat"],
    "plants": ["oak", "rose", "fern", "moss"],
    "stones": ["flint", "slate"],
}


@pytest.mark.slow
def test_texts_in_a_parquet_file(spark, tmp_path):
    rng = np.random.default_rng(0)
    others = [f"word{index}" for index in range(50)]
    lines = []
    for topic, words in WORDS.items():
        for _ in range(60):
            text = [*rng.choice(others, 6), *rng.choice(words, 2)]
            lines.append((topic, ", ".join(rng.permutation(text)).capitalize() + "."))
    path = str(tmp_path / "lines.parquet")
    spark.createDataFrame(lines, ["source", "text"]).write.parquet(path)
    frame = spark.read.parquet(path)
    stages = [
        StringIndexer(inputCol="source", outputCol="label"),
        RegexTokenizer(inputCol="text", outputCol="words", pattern="\\W+"),
        HashingTF(inputCol="words", outputCol="counts", numFeatures=2**18),
        IDF(inputCol="counts", outputCol="weighted"),
        Normalizer(inputCol="weighted", outputCol="features"),
        LinearSVMClassifier(C=10.0, tol=1e-5, seed=0),
    ]
    model = Pipeline(stages=stages).fit(frame)
    model.write().save(str(tmp_path / "model"))
    found = (
        PipelineModel.load(str(tmp_path / "model")).transform(frame).select("label", "features", "prediction").collect()
    )
    labels = np.array([row.label for row in found])
    assert (labels == [row.prediction for row in found]).mean() > 0.98
    rows = [row.features for row in found]
    ends = np.cumsum([0] + [len(row.indices) for row in rows])
    values, columns = (np.concatenate([getattr(row, name) for row in rows]) for name in ("values", "indices"))
    X = sp.csr_array((values, columns, ends), shape=(len(rows), 2**18))
    here = dm.LinearSVMClassifier(C=10.0, tol=1e-5, random_state=0).fit(X, labels)
    np.testing.assert_allclose(model.stages[-1].objective, here.objective_, rtol=2e-5)
