"""
Calibrated probabilities
========================

The machines have no `predict_proba`. scikit-learn's `CalibratedClassifierCV` maps their decision values to
probabilities. The curve shows whether, for example, eight in ten rows with a probability of 0.8 have the label.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from dimargin import LinearODMClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y >= 5, test_size=0.5, stratify=y, random_state=0)
machine = LinearODMClassifier(random_state=0)

figure, ax = plt.subplots(layout="constrained")
for method in ("sigmoid", "isotonic"):
    calibrated = CalibratedClassifierCV(machine, method=method, ensemble=False).fit(X, y)
    CalibrationDisplay.from_estimator(calibrated, X_test, y_test, n_bins=8, strategy="quantile", name=method, ax=ax)
    print(f"{method}: Brier score {brier_score_loss(y_test, calibrated.predict_proba(X_test)[:, 1]):.4f}")
plt.show()
