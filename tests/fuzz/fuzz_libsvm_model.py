"""LIBSVM's text models, and predictions by those that are read."""

import numpy as np
import scipy.sparse as sp

from dimargin.io.libsvm import from_libsvm
from dimargin.io.models import ModelFileError

from .inputs import SOME_NUMBERS, check_refusal, file, mutated


def _number(rng):
    return rng.choice(SOME_NUMBERS) if rng.random() < 0.02 else rng.choice(["1", "-1", "0.5", "2"])


def generate(rng):
    kernel = rng.choice(["linear", "polynomial", "rbf", "precomputed", "sigmoid"] if rng.random() < 0.3 else ["rbf"])
    n_classes = rng.choice([1, 2, 2, 3])
    counts = [rng.choice([0, 1, 2]) for _ in range(n_classes)]
    kind = rng.choice(["c_svc"] * 9 + ["nu_svc", "one_class", "epsilon_svr", "nu_svr"])
    if is_single := kind not in ("c_svc", "nu_svc"):
        n_classes, counts = 2, [sum(counts), 0]
    lines = [f"svm_type {kind}", f"kernel_type {kernel}"]
    if kernel == "polynomial":
        lines += [f"degree {_number(rng)}", f"coef0 {_number(rng)}"]
    if kernel in ("polynomial", "rbf"):
        lines += [f"gamma {_number(rng)}"]
    pairs = n_classes * (n_classes - 1) // 2
    lines += [
        f"nr_class {n_classes}",
        f"total_sv {sum(counts)}",
        " ".join(["rho", *(_number(rng) for _ in range(pairs))]),
    ]
    if not is_single or rng.random() < 0.1:
        lines += [" ".join(["label", *map(str, range(n_classes))]), " ".join(["nr_sv", *map(str, counts)])]
    if rng.random() < 0.3:
        for name in rng.choice([["probA", "probB"], ["probA"], ["prob_density_marks"]]):
            numbers = sorted(map(str, range(10))) if name == "prob_density_marks" else ["1"] * pairs
            lines.append(" ".join([name, *numbers]))
    lines.append("SV")
    for _ in range(sum(counts)):
        coefficients = [_number(rng) for _ in range(n_classes - 1)]
        at = [0] if kernel == "precomputed" else sorted(rng.sample(range(1, 9), rng.choice([1, 2, 3])))
        lines.append(" ".join([*coefficients, *(f"{k}:{_number(rng)}" for k in at)]) + " ")
    data = ("\n".join(lines) + "\n").encode()
    return mutated(rng, data) if rng.random() < 0.6 else data


def check(data):
    path = file("text.model", data)
    try:
        model = from_libsvm(path)
    except ModelFileError as error:
        return check_refusal(error, path)
    for storage in (np.zeros, sp.csr_array):
        if model.n_columns < 10_000 or storage is sp.csr_array:
            try:
                X = storage((2, max(1, model.n_columns)))
                model.predict(X)
                if model.has_probabilities and not model.is_regression:
                    model.predict_proba(X)
            except ValueError as error:  # numbers too large for the kernel
                assert "too large" in str(error), error
