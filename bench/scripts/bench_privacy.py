"""Accuracy against the privacy budget of sites, and membership inference by a neighbour.

Usage: bench_privacy.py [a9a] [cod-rna] [phishing] [--seeds N] [--attack]

Ten sites in a ring, rows at random, learn by consensus ADMM with the defaults of `dimargin site`
(alpha 1e-4, 40 noisy releases rounded to 7 levels, rows clipped to norm one) and delta 1e-5, for
each row of a site and the replacement of one row. Features are as they are published: nothing is
computed from them. Every entry is the accuracy on test rows of the worst site, in percent: the
median of N seeds (5), and the smallest and largest. The rivals are

  one release    output perturbation: every site releases its own machine once (Chaudhuri,
                 Monteleoni, Sarwate 2011, algorithm 1, with Gaussian noise), and all take the mean,
                 with the best of four regularisers for the test rows
  AMP            approximate minima perturbation without hyperparameters, on the rows of all sites
                 in one place (Iyengar, Near, Song, Thakkar, Thakurta, Wang, "Towards practical
                 differentially private convex optimization", IEEE S&P 2019, algorithm 1, with the
                 constants of its authors' program), for the Huber hinge with h = 0.1
  gradients      noisy gradient descent of the sites (`RobustGossip(Mean())`), 40 steps
  no privacy     exact consensus ADMM, and LIBLINEAR on the rows of all sites with the best of
                 seven regularisers

--attack tries membership inference on a9a. A site has 300 rows; its neighbour knows 299 of them,
and whether the last one is A or B, the two longest rows of different labels, is all that it has to
find out. It takes the more likely of the two, given all releases. With sums of log-likelihood
ratios the best test there is, it must stay below Phi(mu/2), the accuracy that the budget allows.
Three data sets take half an hour; the attack takes some minutes.
"""

import argparse
import warnings

import numpy as np
from common import heading, load, median_and_spread, table
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds import ConsensusADMM, Logarithmic, Mean, Privacy, PrivateADMM, RobustGossip
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.gossip.rounds.privacy import mu_of
from dimargin.gossip.rounds.private_admm import with_privacy
from dimargin.problems.hinge import HingeRows

N_SITES, ALPHA, DELTA = 10, 1e-4, 1e-5
BUDGETS = (0.5, 1.0, 3.0, 10.0)


def data(name):
    """Training and test rows with a constant feature, and their signs."""
    if name == "a9a":
        (X, y), (X_test, y_test) = load(name), load("a9a.t")
        X_test = np.pad(X_test, ((0, 0), (0, X.shape[1] - X_test.shape[1])))
    else:
        X, y = load(name)
        order = np.random.default_rng(0).permutation(len(y))
        train, test = np.split(order, [len(y) * 4 // 5])
        X, X_test, y, y_test = X[train], X[test], y[train], y[test]
    constant = [np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_test)]
    return constant[0], np.where(y > 0, 1.0, -1.0), constant[1], np.where(y_test > 0, 1.0, -1.0)


def worst_site(algorithm, rows, seed):
    X, y, X_test, y_test = rows
    machine = GossipSVMClassifier(
        algorithm, n_sites=N_SITES, topology="ring", alpha=ALPHA, tol=1e-3, max_iter=400, random_state=seed
    )
    machine.fit(X, y)
    return 100 * min((np.sign(X_test @ w) == y_test).mean() for w in machine.site_coef_)


def entry(values):
    return "{:.2f} [{:.2f} .. {:.2f}]".format(*median_and_spread(values))


def accuracies(name, n_seeds):
    """Lines of the table of a data set."""
    rows = X, y, X_test, y_test = data(name)
    machines = (LinearSVC(loss="hinge", C=C, fit_intercept=False, max_iter=2000) for C in 10.0 ** np.arange(-5, 2))
    central = 100 * max(machine.fit(X, y).score(X_test, y_test) for machine in machines)
    shortened = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]
    exact = worst_site(ConsensusADMM(compression=Logarithmic()), (shortened, *rows[1:]), 0)
    majority = 100 * max((y_test > 0).mean(), (y_test < 0).mean())
    known = f"{exact:.2f}; LIBLINEAR {central:.2f}; one class {majority:.2f}"
    methods = {
        "ADMM, 40 releases": lambda epsilon: PrivateADMM(compression=Logarithmic(), privacy=Privacy(epsilon, DELTA)),
        "gradients, 40 steps": lambda epsilon: RobustGossip(Mean(), privacy=Privacy(epsilon, DELTA)),
    }
    for method, algorithm in methods.items():
        line = [name, method]
        for epsilon in BUDGETS:
            line.append(entry([worst_site(algorithm(epsilon), rows, seed) for seed in range(n_seeds)]))
            print(f"{name}, {method}, epsilon {epsilon:g}: {line[-1]}", flush=True)
        yield [*line, known]
    for method, weights in (("one release", output_perturbation), ("AMP, all rows in one place", minima_perturbation)):
        line = [name, method]
        for epsilon in BUDGETS:
            found = [weights(shortened, y, epsilon, seed) for seed in range(n_seeds)]
            scores = np.array(found).reshape(n_seeds, -1, X.shape[1]) @ X_test.T
            shares = 100 * (np.sign(scores) == y_test).mean(axis=2)
            line.append(entry(shares[:, np.median(shares, axis=0).argmax()]))
            print(f"{name}, {method}, epsilon {epsilon:g}: {line[-1]}", flush=True)
        yield [*line, known]


def output_perturbation(X, y, epsilon, seed):
    """Means of the sites' noisy machines, for rows of norm one at most and each of four regularisers."""
    rng, privacy = np.random.default_rng(seed), Privacy(epsilon, DELTA, rounds=1)
    sites = np.array_split(rng.permutation(len(y)), N_SITES)
    means = []
    for alpha in (3e-4, 1e-3, 3e-3, 1e-2):
        released = []
        for own in sites:
            machine = LinearSVC(loss="hinge", C=1 / (alpha * len(own)), fit_intercept=False, max_iter=2000)
            exact = machine.fit(X[own], y[own]).coef_[0]
            released.append(privacy.release(exact, 2 / (alpha * len(own)), 0, rng))
        means.append(np.mean(released, axis=0))
    return np.array(means)


def minima_perturbation(X, y, epsilon, seed, h=0.1):
    """Weights by approximate minima perturbation, for rows of norm one at most."""
    rng, (n, d) = np.random.default_rng(seed), X.shape
    out, objective = 0.01 * epsilon, 0.99 * epsilon
    share = max(min(0.88671 + 0.0186607 / epsilon**0.372906, 0.99), 1 - 1 / epsilon + 0.001)
    noise_epsilon, gamma = share * objective, 1 / n**2
    regulariser = 2 / (objective - noise_epsilon)
    spread = 2 / n * (1 + (2 * np.log(1 / (0.99 * DELTA))) ** 0.5) / noise_epsilon
    linear = rng.normal(scale=spread, size=d)

    def value(w):
        short = 1 - y * (X @ w)
        middle = np.abs(short) <= h
        loss = np.where(middle, (short + h) ** 2 / (4 * h), np.maximum(short, 0))
        slope = np.where(middle, (short + h) / (2 * h), short > h)
        total = loss.mean() + regulariser / (2 * n) * (w @ w) + linear @ w
        return total, -((slope * y) @ X) / n + regulariser / n * w + linear

    found = minimize(value, np.zeros(d), jac=True, method="BFGS", options={"gtol": gamma, "norm": 2}).x
    last = n * gamma / regulariser * (1 + (2 * np.log(1 / (0.01 * DELTA))) ** 0.5) / out
    return found + rng.normal(scale=last, size=d)


def attack(epsilon, runs, n_rows=300, rounds=10):
    """Share of the runs in which a neighbour names the row that a site has, and the largest that the budget allows."""
    X, y, *_ = data("a9a")
    chosen = np.random.default_rng(0).permutation(len(y))[:n_rows]
    lengths = np.linalg.norm(X, axis=1)
    candidates = [max(np.flatnonzero(y == label), key=lambda k: lengths[k]) for label in (1.0, -1.0)]
    privacy = None if epsilon is None else Privacy(epsilon, DELTA, rounds)
    right = 0
    for seed in range(runs):
        truth, score = seed % 2, 0.0
        programs = []
        for own in (truth, 0, 1):  # The site, and what it would be with either row.
            held = np.append(chosen[1:], candidates[own])
            problem = Problem(ALPHA, N_SITES, N_SITES * n_rows)
            programs.append(
                with_privacy(ConsensusADMM(), privacy).program(problem, "a", HingeRows(X[held], y[None, held]), (seed,))
            )
        for _ in range(rounds):
            for program in programs:
                program._agreed["b"] = programs[0].weights * 0.5
                program._multipliers["b"] = 0 * programs[0].weights
                program._penalties["b"] = program.penalty
            exact = [solution(program) for program in programs[1:]]
            programs[0]._solve()
            seen = programs[0].weights
            score += float(((seen - (exact[0] + exact[1]) / 2) * (exact[1] - exact[0])).sum())
        right += (score > 0) == truth
    return right / runs, 1.0 if privacy is None else norm.cdf(mu_of(epsilon, DELTA) / 2)


def solution(program):
    """The exact solution of a site's problem."""
    curvature, slope = program.distance()
    local = LocalSVM(program.rows, 1.0, curvature, np.zeros(program.rows.signs.shape))
    return local.solve(slope / curvature, 1e-7, 500)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["a9a", "cod-rna", "phishing"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--attack", action="store_true", help="membership inference instead of accuracies")
    arguments = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.attack:
        lines = []
        for epsilon in (*BUDGETS, None):
            share, allowed = attack(epsilon, runs=200)
            lines.append(["none" if epsilon is None else f"{epsilon:g}", f"{share:.3f}", f"{allowed:.3f}"])
        print(table(["epsilon", "right", "at most"], lines))
        return
    lines = [line for name in arguments.names for line in accuracies(name, arguments.seeds)]
    print(
        "", table(["data", "method", *(f"epsilon {epsilon:g}" for epsilon in BUDGETS), "no privacy"], lines), sep="\n"
    )


if __name__ == "__main__":
    main()
