"""
What a certificate bounds
=========================

Every bar is a fit. Its upper end is the objective of the model, its lower end a bound below which no model of these
rows and parameters can be. So the best possible objective lies in every bar. The gap is the length of the bar, divided
by its upper end: the smaller the tolerance, the shorter the bar. The lower picture shows the accuracy of the same
models on new rows, which the gap does not bound. Rows are drawn from two interleaved half circles with noise.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from dimargin import SVMClassifier

X, y = make_moons(20_000, noise=0.3, random_state=0)
X, X_test, y, y_test = X[:10_000], X[10_000:], y[:10_000], y[10_000:]
tolerances = [1.0, 0.5, 0.3, 0.1, 0.03, 0.01, 0.001]
machines = [SVMClassifier(C=10.0, tol=tol, random_state=0).fit(X, y) for tol in tolerances]
best = SVMClassifier(C=10.0, tol=1e-8, random_state=0).fit(X, y).objective_
scores = [100 * machine.score(X_test, y_test) for machine in machines]

figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(7, 5), layout="constrained", height_ratios=[3, 2])
lower, upper = ([getattr(m, name) / best for m in machines] for name in ("dual_objective_", "objective_"))
top.vlines(range(len(machines)), lower, upper, color="tab:blue", linewidth=6)
top.scatter(range(len(machines)), upper, color="tab:blue", marker="_", s=300, label="objective_, of the model")
top.scatter(range(len(machines)), lower, color="tab:orange", marker="_", s=300, label="dual_objective_, a bound")
top.axhline(1, color="black", linestyle=":", label="the best possible objective")
top.set(ylabel="objective / best objective", ylim=(0, 2.4))
top.legend(loc="upper right")
bottom.plot(scores, "o-", color="tab:blue")
bottom.set(
    xticks=range(len(machines)),
    xticklabels=[f"{tol:g}\n{m.duality_gap_:.2g}" for tol, m in zip(tolerances, machines, strict=True)],
)
bottom.set(xlabel="tol of the fit, and below it the duality_gap_ that it reached", ylabel="test accuracy, %")
plt.show()

# %%
# From a gap of a few hundredths on, the accuracy changes no more than it would with other rows.

for tol, machine, score in zip(tolerances, machines, scores, strict=True):
    bar = f"[{machine.dual_objective_:8.1f}, {machine.objective_:8.1f}]"
    print(f"tol {tol:5g}: {bar} holds {best:.1f}; gap {machine.duality_gap_:.1e}, accuracy {score:.2f}%")
