"""Scanned digits (usps): principal components, then SVC, as scikit-learn's example of faces did."""

import os
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.decomposition import PCA
from sklearn.metrics import classification_report
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

folder = Path(os.environ["DIMARGIN_DATA"])
X, y = load_svmlight_file(str(folder / "usps.bz2"))
X_test, y_test = load_svmlight_file(str(folder / "usps.t.bz2"), n_features=X.shape[1])
model = make_pipeline(
    PCA(60, whiten=True, svd_solver="randomized", random_state=42),
    SVC(kernel="rbf", class_weight="balanced", C=100, gamma=0.005),
).fit(X.toarray(), y)
report = classification_report(y_test, model.predict(X_test.toarray()), output_dict=True)
print(f"accuracy: {report['accuracy']:.4f}, macro F1: {report['macro avg']['f1-score']:.4f}")
