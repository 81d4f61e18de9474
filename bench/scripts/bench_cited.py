"""Figures that docstrings and docs/algorithms.md cite: counts, sizes and accuracies, with the places that cite them.

Usage: bench_cited.py [NAME ...]; all works by default, each named like its function below.

No figure is a time, so that none depends on a machine that is quiet; the last digit of an accuracy
may depend on the processor, since rounding does. Rows are drawn at random, tested on at most 20,000
others, and scaled to [0, 1] by training ranges, where nothing else is said. Where a work replaces a
part of the library by another one, that is what the figure compares with, and no option of it.
"""

import argparse
import warnings
from contextlib import contextmanager
from threading import Event

import numpy as np
from bench_core_set import Full
from bench_exact import local_gamma
from common import heading, kernel_values, load, scaled, split
from scipy.special import logit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

import dimargin as dm
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.partition import cluster_rows
from dimargin.shards.parts import Part, n_shards_for
from dimargin.solvers import BlockCoordinateDescent, blocks
from dimargin.solvers.shrinking import ShrinkingRule
from dimargin_bench.experiments.split_data import load as load_split
from dimargin_bench.kernel_rivals import BaggedSVM, SingleCoordinateODM, SVMPerf

WORKS = {}
COVTYPE = "covtype.libsvm.binary"
ALGORITHMS = "docs/algorithms.md#"
HINGE = {"ijcnn1": {"C": 32.0, "gamma": 2.0}, "cod-rna": {"C": 10.0, "gamma": 4.0}}  # as in bench_front_page.py
PARTS_16 = {"branching": 4, "n_levels": 2, "random_state": 0}
LARGEST = 1 - 1e-6  # probability that a member of a committee may claim


def draw(name, n):
    """`n` training rows and others for the test, scaled."""
    return split(name, n, 20_000)


def cited(*places):
    """Register a work, which yields what it measures and the figure, with the places that cite it."""

    def register(work):
        WORKS[work.__name__] = work, places
        return work

    return register


def values_of(machine, n):
    """Kernel values of a fit over n^2."""
    return kernel_values(machine) / n**2


def percent(machine, X, y):
    return f"{100 * machine.score(X, y):.1f}%"


def distance(coefficients, best, K):
    """Relative distance of the machine of some coefficients from that of others, in the kernel's space."""
    difference = coefficients - best
    return float(np.sqrt((difference @ K @ difference) / (best @ K @ best)))


def coefficients_of(machine, n):
    found = np.zeros(n)
    found[machine.support_] = machine.dual_coef_[0]
    return found


@contextmanager
def replaced(module, name, value):
    """Another value of a name of a module, for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


# ---- cascades --------------------------------------------------------------------------------------------------------


@cited(f"{ALGORITHMS}cascades", f"{ALGORITHMS}distribution-preserving-cascades")
def one_round():
    """What one round on 16,000 rows in 16 parts reaches, hinge, and how many rounds meet a gap of 1e-3."""
    for name, parameters in HINGE.items():
        A, B, a, b = draw(name, 16_000)
        best = dm.SVMClassifier(fit_intercept=False, **parameters, strategy="exact", random_state=0).fit(A, a)
        yield f"{name}, the optimum", percent(best, B, b)
        for way, strategy in {
            "cascade": dm.Cascade(rounds=1),
            "cascade, global coefficients": dm.Cascade(rounds=1, coefficients="global"),
            "dip, rows near the boundary": dm.DiP(rounds=1),
            "dip, support vectors": dm.DiP(rounds=1, relevance="sv"),
        }.items():
            machine = dm.SVMClassifier(fit_intercept=False, **parameters, **PARTS_16, strategy=strategy).fit(A, a)
            yield f"{name}, {way}", percent(machine, B, b)
        for coefficients in ("represented", "global"):
            strategy = dm.Cascade(rounds=20, coefficients=coefficients)
            machine = dm.SVMClassifier(fit_intercept=False, **parameters, **PARTS_16, strategy=strategy).fit(A, a)
            yield f"{name}, rounds, {coefficients} coefficients", f"{machine.history_[-1]['round']}, {machine.status_}"


@cited(f"{ALGORITHMS}cascades")
def rounds_or_the_whole():
    """Kernel values, over n^2, of rounds after the first to a gap of 1e-3, and of the whole problem instead."""
    for name, n, shape, machine in (
        ("ijcnn1", 10_000, {"n_levels": 1}, dm.SVMClassifier(fit_intercept=False, C=32.0, random_state=0)),
        ("cod-rna", 16_000, {"n_levels": 2}, dm.ODMClassifier(lam=1e5, random_state=0)),
    ):
        A, _, a, _ = draw(name, n)
        machine.set_params(branching=4, **shape, strategy=dm.Cascade(rounds=10)).fit(A, a)
        rounds = [entry for entry in machine.history_ if entry.get("round", 1) > 1]
        spent = sum(entry["kernel_evaluations"] for entry in rounds) / n**2
        yield f"{name}, {n} rows, {4 ** shape['n_levels']} parts: {len(rounds)} rounds more", f"{spent:.2f}"
        machine.set_params(strategy=dm.Cascade()).fit(A, a)
        yield f"{name}, the whole problem", f"{machine.history_[-1]['kernel_evaluations'] / n**2:.2f}"


# ---- clusters --------------------------------------------------------------------------------------------------------


@cited(f"{ALGORITHMS}early-prediction")
def committee():
    """Accuracy of each rule of prediction on 20,000 rows of ijcnn1 in 16 clusters, hinge."""
    A, B, a, b = draw("ijcnn1", 20_000)
    for rule in ("naive", "bcm", "early"):
        strategy = dm.DivideAndConquer(prediction=rule)
        machine = dm.SVMClassifier(
            fit_intercept=False, **HINGE["ijcnn1"], **PARTS_16, strategy=strategy, stop_level=2
        ).fit(A, a)
        yield rule, percent(machine, B, b)
    clusters, positive = machine._router.rule.assign(A), a == a.max()
    numbers = np.unique(clusters)
    total = np.full(len(b), (1 - len(numbers)) * logit(positive.mean()))
    for number in numbers:
        own = np.flatnonzero(clusters == number)
        total += logit(np.clip(claimed(A[own], positive[own], B), 1 - LARGEST, LARGEST))
    yield "committee of Platt's machines, intercepts fitted", f"{100 * ((total > 0) == (b == a.max())).mean():.1f}%"


def claimed(X, positive, X_test):
    """Probabilities of a member by Platt's method in full, or by the share of the rows if a fold lacks a class."""
    if min(positive.sum(), (~positive).sum()) < 3:
        return np.full(len(X_test), (positive.sum() + 1) / (len(positive) + 2))
    machine = dm.SVMClassifier(fit_intercept=False, **HINGE["ijcnn1"], random_state=0)
    return CalibratedClassifierCV(machine, cv=3, ensemble=False).fit(X, positive).predict_proba(X_test)[:, 1]


@cited(f"{ALGORITHMS}kernel-clusters")
def clusters_of_covtype():
    """Sizes of 64 clusters of covtype by each kernel, and the share of the sum of the given one's values inside."""
    X, _ = load(COVTYPE)
    X = scaled(X)[np.random.default_rng(1).permutation(len(X))[:464_810]]
    kernel, n = KernelMatrix(RowTransform.fit(X, Kernel("rbf", 32.0)), X, n_threads=2), len(X)
    problem = DualProblem(np.ones((1, n)), np.ones(n), HingeLoss(1.0), float(n), float(n), kernel=kernel)
    some = np.random.default_rng(2).permutation(n)[:4000]  # columns, for the share
    for way, wide in (("the same kernel", False), ("a wider one", True)):
        rows = LocalEngine(2, Event()).scatter(Part.split(problem, n_shards_for(n)))
        found = cluster_rows(rows, n, 64, np.random.default_rng(0), wide=wide)
        clusters = found.rule.assign(X, n_threads=2)
        sizes = np.bincount(clusters)
        largest = f"the largest {sizes.max():,} of {n:,} rows, {sizes.max() / sizes.mean():.1f} times the mean"
        yield f"{way}, gamma={found.rule.transform.kernel.gamma:.3g}: clusters", f"{len(sizes)}, {largest}"
        total, inside = np.zeros((1, n)), 0.0
        for number in range(len(sizes)):
            own, sums = some[clusters[some] == number], np.zeros((1, n))
            if len(own):
                sums = kernel.multiply(own, np.ones((1, len(own))))
            total += sums
            inside += sums[0, clusters == number].sum()
        yield f"{way}: share of the sum inside clusters", f"{inside / total.sum():.2f}"


# ---- svmguide1 -------------------------------------------------------------------------------------------------------


@cited(f"{ALGORITHMS}block-coordinate-descent", f"{ALGORITHMS}merging", f"{ALGORITHMS}what-a-tree-is-worth",
       f"{ALGORITHMS}cascades", f"{ALGORITHMS}landmark-machines")  # fmt: skip
def svmguide1():
    """ODMs on svmguide1 (gamma=16, upsilon=.3, theta=.1) at four lam, and with a wide band at the last but one."""
    (X, y), (X_test, y_test) = load("svmguide1"), load("svmguide1.t")
    X, X_test = scaled(X, X_test)
    K, n = rbf_kernel(X, gamma=16.0), len(y)
    for lam, theta in ((64.0, 0.1), (1024.0, 0.1), (16_384.0, 0.1), (262_144.0, 0.1), (16_384.0, 0.8)):
        options, case = {"gamma": 16.0, "upsilon": 0.3, "theta": theta}, f"lam={lam:g}, theta={theta:g}"
        best = dm.ODMClassifier(lam=lam, **options, random_state=0).fit(X, y)
        yield f"{case}: support vectors", f"{len(best.support_) / n:.0%}"
        sweeps = SingleCoordinateODM(lam=lam, **options, max_iter=600, random_state=0).fit(X, y)
        yield f"{case}: sweeps of single steps", f"{sweeps.n_iter_}, gap {sweeps.duality_gap_:.1e}"
        folds = StratifiedKFold(8, shuffle=True, random_state=0)
        parts = [part for _, part in folds.split(X, y)]
        own = SingleCoordinateODM(lam=lam, **options, max_iter=600, random_state=0).fit(X[parts[0]], y[parts[0]])
        yield f"{case}: the same for {len(parts[0])} rows", f"{own.n_iter_}, gap {own.duality_gap_:.1e}"
        tree = dm.ODMClassifier(lam=lam, **options, strategy=dm.DiODM(early_stop=False), branching=2, n_levels=3,
                                stop_level=3, random_state=0).fit(X, y)  # fmt: skip
        start, optimum = coefficients_of(tree, n), coefficients_of(best, n)
        yield f"{case}: distance of the start of 8 parts", f"{distance(start, optimum, K):.2g}"
        yield f"{case}: of their coefficients as they are", f"{distance(8 * start, optimum, K):.2g}"
        few = dm.ODMClassifier(lam=lam, **options, strategy="landmark", n_landmarks=300, random_state=0).fit(X, y)
        for whose, machine in {"all rows": best, "8 parts": tree, "300 landmarks": few}.items():
            yield f"{case}: accuracy of {whose}", f"{machine.score(X_test, y_test):.4f}"
        for weight, local in (("their own", lam), ("all rows", lam / 8)):
            machines = (dm.ODMClassifier(lam=local, **options, random_state=0).fit(X[part], y[part]) for part in parts)
            decision = sum(machine.decision_function(X_test) for machine in machines)
            right = np.mean((decision > 0) == (y_test == y.max()))
            yield f"{case}: 8 parts with the weight of {weight}", f"{right:.4f}"


@cited(f"{ALGORITHMS}allowance-of-a-core-set")
def allowance():
    """CoreSetSVMClassifier on svmguide1 (gamma=8, C=1, a quarter for the test) by epsilon, and rho at the optimum."""
    X, y = load("svmguide1")
    X, order = scaled(X), np.random.default_rng(0).permutation(len(y))
    train, test = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
    for epsilon in (0.1, 0.01, 0.001):
        machine = dm.CoreSetSVMClassifier(epsilon=epsilon, gamma=8.0, random_state=0).fit(X[train], y[train])
        yield f"epsilon={epsilon:g}", f"{machine.score(X[test], y[test]):.4f}"
    best = Full(gamma=8.0, tol=1e-6, random_state=0).fit(X[train], y[train])
    yield "all rows", f"{best.score(X[test], y[test]):.4f}"
    yield "rho, 1 over the sum of coefficients", f"{1 / np.abs(best.dual_coef_).sum():.2g}"


@cited("solvers/growing_rows.py", f"{ALGORITHMS}core-set-machines")
def core_sets():
    """Rows of a core-set beside the support of the exact solver, both at a gap of 1e-3."""
    for name, n, gamma in (("svmguide1", 2316, 8.0), ("cod-rna", 44_651, 8.0), (COVTYPE, 20_000, 32.0)):
        A, _, a, _ = draw(name, n)
        few = dm.CoreSetSVMClassifier(gamma=gamma, random_state=0).fit(A, a)
        every = Full(gamma=gamma, random_state=0).fit(A, a)
        fewer = 1 - len(few.support_) / len(every.support_)
        yield f"{name}, {n} rows", f"{len(few.support_)} and {len(every.support_)}, {fewer:.1%} fewer"


# ---- the solver ------------------------------------------------------------------------------------------------------


def fits_of_blocks():
    """Fits in which blocks are at random or of neighbours."""
    for name in ("cod-rna", "ijcnn1", "phishing", "a9a", "SUSY-30k"):
        A, _, a, _ = draw(name, 8000)
        for lam in (1e3, 1e5):
            yield f"{name}, lam={lam:g}", dm.ODMClassifier(lam=lam, strategy="exact", random_state=0), A, a


def at_random(kernel, rows, n_blocks, rng):
    return np.array_split(rng.permutation(rows), n_blocks)


@cited("solvers/blocks.py")
def blocks_of_neighbours():
    """Kernel values with blocks of neighbours every second pass over those of blocks at random alone."""
    ratios = []
    for _, machine, A, a in fits_of_blocks():
        ours = values_of(machine.fit(A, a), len(a))
        with replaced(blocks, "deal_neighbours", at_random):
            ratios.append(ours / values_of(machine.fit(A, a), len(a)))
    yield f"ODM, {len(ratios)} fits of 8,000 rows", f"{min(ratios):.2f} to {max(ratios):.2f} times"
    A, _, a, _ = draw(COVTYPE, 20_000)
    machine = dm.SVMClassifier(fit_intercept=False, C=32.0, gamma=32.0, tol=0.03, random_state=0)
    ours = values_of(machine.fit(A, a), len(a))
    with replaced(blocks, "deal_neighbours", at_random):
        others = values_of(machine.fit(A, a), len(a))
    yield "hinge, 20,000 rows of covtype, without neighbours", f"{others / ours:.1f} times as many"


@cited("solvers/shrinking.py")
def rows_that_rest():
    """Kernel values of the hinge where no rows begin alone, and where all wake at other parts of the gap."""
    others = {
        "all rows begin": {"large": np.inf},
        "wake at 0.4": {"gap_share": 0.4},
        "wake at 0.02": {"gap_share": 0.02},
    }
    problems = {**HINGE, "SUSY-30k": {"C": 1.0}, "phishing": {"C": 10.0}, COVTYPE: {"C": 32.0, "gamma": 32.0}}
    for name, parameters in problems.items():
        A, _, a, _ = draw(name, 8000 if name == "phishing" else 20_000)
        machine = dm.SVMClassifier(fit_intercept=False, **parameters, tol=0.003, random_state=0)
        ours, ratios = values_of(machine.fit(A, a), len(a)), []
        for way, settings in others.items():
            with replaced(BlockCoordinateDescent, "shrinking", ShrinkingRule(**settings)):
                ratios.append(f"{way} {values_of(machine.fit(A, a), len(a)) / ours:.2f}")
        yield f"{name}, times ours", ", ".join(ratios)


@cited("solvers/blocks.py")
def whole_rows():
    """Kernel values of the hinge on reuters, C=8, whose kernel rows are remembered whole."""
    X, y = load("reuters")
    machine = dm.SVMClassifier(C=8.0, gamma=1.0, fit_intercept=True, random_state=0).fit(X, y)
    yield f"{X.shape[0]:,} rows of {X.nnz / X.shape[0]:.0f} numbers", f"{values_of(machine, X.shape[0]):.2f} n^2"


@cited("strategies/landmark.py")
def polish():
    """Kernel values, over n^2, of an exact fit from 300 landmarks on, and from zero, to a gap of 1e-3."""
    for name, n, gamma in (("SUSY-30k", 24_000, 0.5), ("cod-rna", 20_000, None)):
        A, _, a, _ = draw(name, n)
        gamma = gamma or local_gamma(A, np.random.default_rng(0))
        machine = dm.ODMClassifier(lam=1e5, gamma=gamma, random_state=0)
        few = machine.set_params(strategy=dm.Landmark(polish=True), n_landmarks=300).fit(A, a)
        found = f"{values_of(few, n):.2f}, {few.certificate_}"
        every = machine.set_params(strategy="exact", n_landmarks=None).fit(A, a)
        yield f"{name}, {n} rows, gamma={gamma:.3g}", f"{found}; {values_of(every, n):.2f}"


# ---- data and rivals -------------------------------------------------------------------------------------------------


@cited("estimators/training_data.py", f"{ALGORITHMS}block-coordinate-descent", "CHANGELOG.md")
def different_rows():
    """Share of the rows, with their labels, that differ from all others; and of numbers that are not zero."""
    for name in ("skin_nonskin", "phishing", "a9a", "cod-rna", "ijcnn1", "SUSY-30k", "usps", COVTYPE):
        X, y = load(name)
        rows = np.ascontiguousarray(np.column_stack([X, y]))
        different = len(np.unique(rows.view(f"V{rows.itemsize * rows.shape[1]}")))
        yield name, f"{different / len(y):.1%} different; {X.shape[1]} columns, {np.mean(X != 0):.0%} not zero"


@cited(
    "kernel_rivals/bagging.py",
    "experiments/split_data.py",
    "experiments/dcsvm_experiment.py",
    f"{ALGORITHMS}rivals-of-dc-svm",
)
def rivals_on_ijcnn1():
    """LIBSVM on ijcnn1 as it is, scaled, and of rows drawn from both files; 16 machines of a sixteenth of its rows."""
    (X, y), (X_test, y_test) = load("ijcnn1"), load("ijcnn1.t")
    numbers = [len(np.unique(column)) > 2 for column in X.T]  # the other features are zero or one
    reach = [np.abs(rows[:, numbers]).max() for rows in (X, X_test)]
    yield "largest absolute values of both files", f"{reach[0]:.2f} and {reach[1]:.2f}"
    both, labels = np.vstack([X, X_test]), np.concatenate([y, y_test])
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[: len(y)], order[len(y) :]
    for way, (A, B), a, b in (
        ("as they are", (X, X_test), y, y_test),
        ("scaled", scaled(X, X_test), y, y_test),
        ("drawn from both, scaled", scaled(both[train], both[test]), labels[train], labels[test]),
    ):
        machine = SVC(C=32.0, gamma=2.0, cache_size=2000).fit(A, a)
        yield f"LIBSVM, {way}", f"{100 * machine.score(B, b):.2f}%"
    machine = BaggedSVM(C=32.0, gamma=2.0, random_state=0).fit(X, y)
    yield "16 machines without an intercept", f"{100 * machine.score(X_test, y_test):.2f}%"
    bag = BaggingClassifier(SVC(C=32.0, gamma=2.0), 16, max_samples=1 / 16, bootstrap=False, random_state=0)
    machines = bag.fit(X, y).estimators_  # they vote: scikit-learn would add up probabilities, which these lack
    votes = sum(np.sign(machine.decision_function(X_test)) for machine in machines)
    yield "16 of LIBSVM's, with one", f"{100 * np.mean((votes > 0) == (y_test == y.max())):.2f}%"


@cited("kernel_rivals/svm_perf.py")
def planes():
    """Cutting planes of SVMPerf on a9a with a constant feature, alpha = 1e-4."""
    X, y = load("a9a")
    machine = SVMPerf(alpha=1e-4, fit_intercept=True).fit(X, y)
    yield "planes", f"{np.max(machine.n_iter_)}"
    longest = (X**2).sum(axis=1).max() + 1
    yield "bound, 8 R^2 / (alpha tol^2)", f"{8 * longest / (1e-4 * machine.tol**2):.1e}"


@cited("experiments/diodm_parameters.py")
def chosen_parameters():
    """Parameters that one search chooses for the ODM, and for the hinge with an intercept."""
    hinge = dm.SVMClassifier(tol=0.01, fit_intercept=True, random_state=0)
    for name in ("phishing", "a7a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k"):
        rows = load_split(name, joined=True)
        for what, machine in (("ODM", None), ("hinge", hinge)):
            tuned = dm.ODMClassifierCV(machine, random_state=0).fit(rows.X, rows.y)
            chosen = ", ".join(f"{key} {value:.3g}" for key, value in tuned.best_params_.items())
            yield f"{name}, {what}", f"{chosen}: {100 * tuned.score(rows.X_test, rows.y_test):.2f}% of the test rows"


@cited("experiments/diodm_parameters.py")
def linear_parameters():
    """lam of linear ODMs: five-fold accuracy on the training rows at theta = 0.8, upsilon = 0.5."""
    grid = {"lam": [16.0, 64.0, 256.0, 1024.0, 4096.0]}
    for name in ("svmguide1", "phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k"):
        X, y = load(name)
        rows = np.random.default_rng(0).permutation(len(y))[:30_000]
        search = GridSearchCV(dm.LinearODMClassifier(theta=0.8, upsilon=0.5, random_state=0), grid, cv=5, n_jobs=2)
        scores = search.fit(scaled(X)[rows], y[rows]).cv_results_["mean_test_score"]
        said = ", ".join(f"{lam:g}: {100 * score:.2f}%" for lam, score in zip(grid["lam"], scores, strict=True))
        yield f"{name}, {len(rows):,} rows", said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*WORKS, []])
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)  # rounds, parts and sweeps that shall end before their gap
    for name in parser.parse_args().names or WORKS:
        work, places = WORKS[name]
        print(f"{name}: {work.__doc__} Cited in {', '.join(places)}.", flush=True)
        for what, figure in work():
            print(f"    {what}: {figure}", flush=True)


if __name__ == "__main__":
    main()
