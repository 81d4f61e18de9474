"""Writes people_calibrated.dimargin, a model of people.csv, and people_calibrated.json, its probabilities.

tests/io/models/test_old_models.py reads them. Do not write them again: they stand for the files
that users have.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures

HERE = Path(__file__).parent


def main():
    """Write the files."""
    frame = pd.read_csv(HERE / "people.csv")
    y = np.array(json.loads((HERE / "people.json").read_text())["labels"])
    steps = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler()), ["age", "size"]),
            ("dates", make_pipeline(CalendarFeatures(), StandardScaler()), ["since"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["job"]),
        ]
    )
    machine = make_pipeline(MinMaxScaler((0, 2)), dm.SVMClassifier(random_state=0))
    model = make_pipeline(steps, StandardScaler(with_mean=False), CalibratedClassifierCV(machine, cv=3)).fit(frame, y)
    dm.save(model, HERE / "people_calibrated.dimargin", notes={"label": "class"})
    found = {"labels": model.predict(frame).tolist(), "values": model.predict_proba(frame).tolist()}
    (HERE / "people_calibrated.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
