"""NuSVC in place of SVC, on svmguide1."""

import os
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import NuSVC

folder = Path(os.environ["DIMARGIN_DATA"])
X, y = load_svmlight_file(str(folder / "svmguide1.bz2"))
X_test, y_test = load_svmlight_file(str(folder / "svmguide1.t.bz2"), n_features=X.shape[1])
model = make_pipeline(StandardScaler(), NuSVC(nu=0.1)).fit(X.toarray(), y)
print(f"accuracy: {model.score(X_test.toarray(), y_test):.4f}")
