"""LIBLINEAR's text models, and predictions by those that are read."""

import numpy as np
import scipy.sparse as sp

from dimargin.io.libsvm import from_liblinear
from dimargin.io.models import ModelFileError

from .inputs import SOME_NUMBERS, check_refusal, file, mutated


def _number(rng):
    return rng.choice(SOME_NUMBERS) if rng.random() < 0.01 else rng.choice(["1", "-1", "0.5", "2"])


def generate(rng):
    solver = rng.choice(["L2R_L2LOSS_SVC_DUAL"] * 4 + ["L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L1R_LR"])
    solver = rng.choice(["L2R_L2LOSS_SVR", "ONECLASS_SVM", "x"]) if rng.random() < 0.1 else solver
    n_classes, n_features = rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 5])
    bias = rng.choice(["-1", "1", "0", "2.5"]) if rng.random() < 0.95 else _number(rng)
    n_outputs = 1 if n_classes == 2 and solver != "MCSVM_CS" else n_classes
    lines = [
        f"solver_type {solver}",
        f"nr_class {n_classes}",
        *([] if solver == "L2R_L2LOSS_SVR" else [" ".join(["label", *map(str, range(n_classes))])]),
        f"nr_feature {n_features if rng.random() < 0.95 else _number(rng)}",
        f"bias {bias}",
        "w",
    ]
    for _ in range(n_features + (not bias.startswith("-"))):
        lines.append("".join(f"{_number(rng)} " for _ in range(n_outputs)))
    data = ("\n".join(lines) + "\n").encode()
    return mutated(rng, data) if rng.random() < 0.6 else data


def check(data):
    path = file("text.model", data)
    try:
        model = from_liblinear(path)
    except ModelFileError as error:
        return check_refusal(error, path)
    assert np.isfinite(model.weights).all() and np.isfinite(model.bias_weights).all()
    for storage in (np.ones, sp.csr_array):
        predicted = model.predict(storage((2, model.weights.shape[1])))
        assert predicted.shape == (2,) and (model.is_regression or np.isin(predicted, model.labels).all())
