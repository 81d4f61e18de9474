"""Comparison of fits under settings that may change their bits; ``python tests/equal_bits.py`` prints the table.

docs/guide/promises.md shows that table. Every setting has a process of its own, because OpenBLAS,
OpenMP and the compiled core read theirs when they are loaded.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import is_regressor

import dimargin as dm

THREADS = {
    "one thread": {"N_JOBS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    "eight threads": {"N_JOBS": "8", "OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "8"},
}
ROUNDING = {
    "numpy's loops without AVX-512": {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    **{f"OPENBLAS_CORETYPE={name}": {"OPENBLAS_CORETYPE": name} for name in ("Haswell", "Zen", "Sandybridge")},
    **{f"DIMARGIN_INSTRUCTION_SET={name}": {"DIMARGIN_INSTRUCTION_SET": name} for name in ("avx2", "baseline")},
    "avx2 and Haswell": {"DIMARGIN_INSTRUCTION_SET": "avx2", "OPENBLAS_CORETYPE": "Haswell"},
}
OWN = {name for settings in (THREADS, ROUNDING) for change in settings.values() for name in change}


def rows(n, d, n_classes=2):
    """Return rows, rounded so that they are the same on every processor, and noisy labels."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)).round(3)
    scores = np.stack([np.sin(2 * X[:, k]) + X[:, -1 - k] for k in range(n_classes)], axis=1)
    return X, (scores + rng.normal(size=scores.shape).round(3) / 2).argmax(axis=1)


def fits(n_jobs):
    """Return machines of every estimator, strategy and kernel, each with rows and labels."""
    large, small, three = rows(3000, 12), rows(600, 6), rows(900, 8, 3)
    targets = large[0], large[0] @ np.arange(12) / 8 + large[1]
    sparse = csr_array(np.where(np.abs(large[0]) > 1.3, large[0], 0.0))
    seed = {"random_state": 0, "n_jobs": n_jobs}
    svms = {
        "hinge": {"C": 10.0}, "intercept": {"fit_intercept": True}, "squared hinge": {"loss": "squared_hinge"},
        "linear": {"kernel": "linear"}, "poly": {"kernel": "poly", "coef0": 1.0}, "laplacian": {"kernel": "laplacian"},
        "dc": {"strategy": "dc"}, "cascade": {"strategy": "cascade"}, "dip": {"strategy": "dip"},
    }  # fmt: skip
    odms = {
        "exact": {}, "landmark": {"strategy": "landmark"}, "diodm": {"strategy": "diodm", "n_levels": 2},
    }  # fmt: skip
    return {
        **{f"SVM, {name}": (dm.SVMClassifier(**given, **seed), *large) for name, given in svms.items()},
        **{f"ODM, {name}": (dm.ODMClassifier(**given, **seed), *large) for name, given in odms.items()},
        "ODM, large lam": (dm.ODMClassifier(lam=1e8, gamma=1e-3, **seed), *rows(1500, 60)),
        "ODM, small tol": (dm.ODMClassifier(tol=1e-8, **seed), *small),
        "SVM, sparse rows": (dm.SVMClassifier(kernel="linear", **seed), sparse, large[1]),
        "SVM, one against one": (dm.SVMClassifier(**seed), *three),
        "ODM, one against the rest": (dm.ODMClassifier(multi_class="one_vs_rest", **seed), *three),
        "linear ODM": (dm.LinearODMClassifier(**seed), *large),
        "linear SVM": (dm.LinearSVMClassifier(**seed), sparse, large[1]),
        "linear SVM, squared hinge": (dm.LinearSVMClassifier(loss="squared_hinge", solver="cd", **seed), *three),
        "linear ODM, SVRG": (dm.LinearODMClassifier(solver="svrg", **seed), *large),
        "regression": (dm.SVMRegressor(**seed), *targets),
        "regression, squared loss": (dm.SVMRegressor(loss="squared_epsilon_insensitive", **seed), *targets),
        "linear regression": (dm.LinearSVMRegressor(**seed), *targets),
        "core-set SVM": (dm.CoreSetSVMClassifier(**seed), *large),
        "SVDD": (dm.CoreSetSVDD(**seed), large[0], None),
        "one-class SVM": (dm.OneClassCoreSetSVM(**seed), large[0], None),
        "gossip": (dm.GossipSVMClassifier(random_state=0), *small),
        "search": (dm.ODMClassifierCV(**seed), *small),
        "search, SVM": (dm.SVMClassifierCV(**seed), *small),
        "path, SVM": (dm.LinearSVMClassifierCV(**seed), *three),
        "path, ODM": (dm.LinearODMClassifierCV(solver="cd", **seed), *small),
    }


def results():
    """Fit all machines; returns the decision values of each, and below another name its coefficients and gap."""
    found = {}
    for name, (machine, X, y) in fits(int(os.environ.get("N_JOBS", 0)) or None).items():
        fitted = machine.fit(X, y)
        found[name] = (fitted.predict if is_regressor(fitted) else fitted.decision_function)(X)
        fitted = getattr(fitted, "best_estimator_", fitted)
        names = ("dual_coef_", "coef_", "intercept_", "duality_gap_")
        found[f"{name}: model"] = np.concatenate([np.ravel(getattr(fitted, key, ())) for key in names])
    return found


def results_with(change):
    """Return `results` of a process whose environment has only these settings."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN and "OPENBLAS" not in name}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.npz")
        command = [sys.executable, "-W", "ignore", __file__, str(path)]
        subprocess.run(command, env={**kept, **change}, check=True)
        with np.load(path) as stored:
            return dict(stored)


def different(one, other):
    """Return the fits of two results that differ in a bit."""
    names = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    return sorted({name.removesuffix(": model") for name in names})


def largest(one, other):
    """Return by how much decision values differ, as a share of the largest, and the share of labels, at most."""
    pairs = [(one[name], other[name]) for name in different(one, other)]
    moved = [np.abs(a - b).max() / np.abs(a).max() for a, b in pairs]
    labels = [np.mean((a > 0) != (b > 0)) if a.ndim == 1 else np.mean(a.argmax(1) != b.argmax(1)) for a, b in pairs]
    return max(moved, default=0.0), max(labels, default=0.0)


if __name__ == "__main__":
    if sys.argv[1:]:
        np.savez(sys.argv[1], **results())
    else:
        first = results_with({})
        for setting, change in {"nothing": {}, **THREADS, **ROUNDING}.items():
            other = results_with(change)
            moved, labels = largest(first, other)
            words = f"decision values by up to {moved:.2g} of the largest, {labels:.2%} of the labels"
            print(f"{setting}: {len(different(first, other))} of {len(fits(None))} fits differ; {words}", flush=True)
