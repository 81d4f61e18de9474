"""
Margins of an ODM and of an SVM
===============================

An SVM raises the smallest margins. An ODM pulls *all* of them together from both sides, so its curve is
steeper. Both machines have an RBF kernel and are tuned by five-fold cross-validation on the training rows, over grids
of the same size, on measurements of breast cancer cells.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from dimargin import MarginDistributionDisplay, ODMClassifier

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
gamma = [0.1, 0.3, 1.0]
machines = {
    "ODM": (ODMClassifier(), {"odmclassifier__gamma": gamma, "odmclassifier__lam": [64, 1024, 16384]}),
    "SVM": (SVC(), {"svc__gamma": gamma, "svc__C": [1, 10, 100]}),
}

ax = None
for name, (machine, grid) in machines.items():
    search = GridSearchCV(make_pipeline(MinMaxScaler(), machine), grid, cv=5).fit(X, y)
    display = MarginDistributionDisplay.from_estimator(
        search, X, y, X_test=X_test, y_test=y_test, normalize="mean", name=name, ax=ax
    )
    ax = display.ax_
    print(f"{name}: {search.best_params_}, test accuracy {search.score(X_test, y_test):.3f}")
    print(f"     variance of the margins: train {display.variance_[0]:.3f}, test {display.variance_[1]:.3f}")

ax.set_title("Breast cancer data: the steeper the curve, the more alike the margins", fontsize="medium")
plt.show()
