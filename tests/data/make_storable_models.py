"""Writes a model file for every class that has none in tests/data, and what it predicts.

tests/io/models/test_old_models.py reads them. A file that is there is not written again: it stands
for the files that users have.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import storable_models

import dimargin as dm

HERE = Path(__file__).parent / "storable_models"
IN_OLD_MODELS = {
    "ODMClassifier", "SVMClassifier", "LinearODMClassifier", "CoreSetSVMClassifier", "GossipSVMClassifier",
    "CoreSetSVDD", "OneClassCoreSetSVM", "MinMaxScaler", "StandardScaler", "MaxAbsScaler", "QuantileTransformer",
    "CalendarFeatures", "FourierFeatures", "ColumnTransformer", "SimpleImputer", "OneHotEncoder",
}  # fmt: skip


def main():
    """Write the files that are missing."""
    HERE.mkdir(exist_ok=True)
    for name in sorted(storable_models.MODELS.keys() - IN_OLD_MODELS):
        if (HERE / f"{name}.dimargin").exists():
            continue
        kind, model = storable_models.MODELS[name][1], storable_models.fitted(name)
        rows = storable_models.NEW[kind]
        rows = rows.toarray() if kind == "sparse" else np.array(rows)
        dm.save(model, HERE / f"{name}.dimargin")
        labels = model.predict(storable_models.NEW[kind])
        values = storable_models.values(model, storable_models.NEW[kind])
        np.savez_compressed(HERE / f"{name}.npz", kind=kind, rows=rows, labels=labels.astype(str), values=values)


if __name__ == "__main__":
    main()
