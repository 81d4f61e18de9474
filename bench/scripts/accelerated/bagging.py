"""BaggingClassifier of SVC, as programs have it that found one SVC too slow; on phishing."""

import os
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

X, y = load_svmlight_file(str(Path(os.environ["DIMARGIN_DATA"]) / "phishing.bz2"))
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = BaggingClassifier(SVC(C=10.0), n_estimators=10, max_samples=0.3, random_state=0).fit(X, y)
print(f"accuracy: {model.score(X_test, y_test):.4f}")
