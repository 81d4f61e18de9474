"""OneVsRestClassifier of SVC with the area under the ROC curve, on scanned digits (usps)."""

import os
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import label_binarize
from sklearn.svm import SVC

folder = Path(os.environ["DIMARGIN_DATA"])
X, y = load_svmlight_file(str(folder / "usps.bz2"))
X_test, y_test = load_svmlight_file(str(folder / "usps.t.bz2"), n_features=X.shape[1])
model = OneVsRestClassifier(SVC(C=10.0)).fit(X.toarray(), y)
values = model.decision_function(X_test.toarray())
area = roc_auc_score(label_binarize(y_test, classes=model.classes_), values, average="macro")
print(f"accuracy: {model.score(X_test.toarray(), y_test):.4f}, area under the ROC curve: {area:.4f}")
