"""A small fit with the installed package: what every built wheel must be able to do."""

import subprocess
import sys

import numpy as np

import dimargin

rng = np.random.default_rng(0)
y = np.repeat([0, 1], 150)
X = rng.normal(size=(300, 2)) + 4 * y[:, None]
model = dimargin.ODMClassifier().fit(X, y)
accuracy = model.score(X, y)
print(f"dimargin {dimargin.__version__} from {dimargin.__file__}: accuracy {accuracy:.3f}")
assert accuracy > 0.95
subprocess.run([sys.executable, "-m", "dimargin", "--help"], check=True, stdout=subprocess.DEVNULL)
