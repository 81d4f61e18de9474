"""Writes the model file of the present format that the tests keep; run it once per format version."""

import json
from pathlib import Path

from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dimargin as dm
from dimargin.io.models.model_format import FORMAT_VERSION

X, y = make_moons(40, noise=0.2, random_state=0)
labels = ["lower" if k else "upper" for k in y]
model = make_pipeline(StandardScaler(), dm.ODMClassifier(lam=100.0, class_weight={"lower": 2.0}, random_state=0))
model.fit(X, labels)
path = Path(__file__).parent / f"model_format_{FORMAT_VERSION}"
dm.save(model, path.with_suffix(".dimargin"), notes={"label": "class"})
expected = {"predicted": model.predict(X).tolist(), "decision_values": model.decision_function(X).tolist()}
path.with_suffix(".json").write_text(json.dumps(expected) + "\n")
