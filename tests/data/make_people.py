"""Writes people.csv, people.dimargin, a model of it, and people.json, what that predicts.

tests/io/models/test_old_models.py reads them. Do not write them again: they stand for the files
that users have.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures

HERE = Path(__file__).parent


def main():
    """Write the files."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 60),
            "size": rng.normal(1.7, 0.1, 60).round(2),
            "job": rng.choice(["nurse", "smith", None], 60),
            "since": pd.date_range("2020-01-01", periods=60, freq="9h").strftime("%Y-%m-%d %H:%M"),
        }
    )
    y = np.where(frame.age + 20 * (frame.job == "nurse") > 60, "ill", "well")
    frame["age"] = frame.age.where(np.arange(60) % 7 > 0)
    frame.to_csv(HERE / "people.csv", index=False)
    frame = pd.read_csv(HERE / "people.csv")
    steps = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median"), ["age", "size"]),
            ("dates", CalendarFeatures(), ["since"]),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job"]),
        ]
    )
    quantiles = QuantileTransformer(n_quantiles=30, output_distribution="normal", random_state=0)
    model = make_pipeline(steps, quantiles, dm.ODMClassifier(lam=100.0, random_state=0)).fit(frame, y)
    dm.save(model, HERE / "people.dimargin", notes={"label": "class"})
    found = {"labels": model.predict(frame).tolist(), "values": model.decision_function(frame).tolist()}
    (HERE / "people.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
