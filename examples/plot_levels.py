"""
A useful model after a tenth of the work
========================================

DiODM solves sixteen parts of the rows in parallel, then four, then all rows. The pictures compare objective, gap and
accuracy after each of these levels with the exact solver, which uses all rows from the start. The task is to tell even
from odd handwritten digits. A model of parts, stopped at the first level, is often nearly as accurate as the last one.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dimargin import ConvergenceDisplay, DiODM, ODMClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y % 2 == 0, test_size=0.3, stratify=y, random_state=0)

# %%
# Both machines have the same parameters, and reach the same optimum.

machines = {
    "DiODM": ODMClassifier(strategy=DiODM(early_stop=False), n_levels=2, random_state=0),
    "exact": ODMClassifier(strategy="exact", tol=1e-6, random_state=0),
}
axes = None
for name, machine in machines.items():
    machine.fit(X, y)
    display = ConvergenceDisplay.from_estimator(machine, x="kernel_evaluations", name=name, ax=axes)
    axes = display.axes_
    print(f"{name}: test accuracy {machine.score(X_test, y_test):.3f}, gap {machine.duality_gap_:.1e}")

plt.show()

# %%
# `stop_level` ends the fit at a level. The gap is then for the problems of the parts.

for level in (2, 1, 0):
    early = ODMClassifier(strategy="diodm", n_levels=2, stop_level=level, random_state=0).fit(X, y)
    values = sum(entry["kernel_evaluations"] for entry in early.history_) / len(y) ** 2
    print(
        f"level {level}: {values:.2f} n^2 kernel values, test accuracy {early.score(X_test, y_test):.3f}, "
        f"certificate {early.certificate_!r}"
    )
