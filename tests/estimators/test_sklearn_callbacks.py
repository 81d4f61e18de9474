"""A scikit-learn before version 1.9 has no callbacks: everything else works."""

import subprocess
import sys

WITHOUT = """
import sys, warnings
import numpy as np
import sklearn.ensemble, sklearn.pipeline  # and all others of scikit-learn, which import it themselves
callbacks = sys.modules.get("sklearn.callback")
sys.modules["sklearn.callback"] = None  # as if it were not there
import dimargin.estimators.sklearn_callbacks
sys.modules["sklearn.callback"] = callbacks
import dimargin

X = np.random.default_rng(0).normal(size=(200, 2))
y = X[:, 0] > 0
levels = dimargin.LevelScores(X, y)
machine = dimargin.ODMClassifier(strategy="diodm", n_levels=1, random_state=0)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    assert machine.set_callbacks(levels) is machine
print(*[one.message for one in found])
gossip = dimargin.GossipSVMClassifier(n_sites=2, random_state=0)
search = dimargin.ODMClassifierCV(min_rows=50, cv=2, random_state=0)
for one in (machine, search, dimargin.LinearODMClassifier(), gossip):
    assert one.set_callbacks() is one and one.fit(X, y).score(X, y) > 0.9, one
assert not hasattr(levels, "scores_")
"""


def test_without_callbacks_estimators_train_and_say_so():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("callbacks are not called: they need scikit-learn 1.9 or newer, and ")
