"""Novelty detection: OneClassSVM on the usual class of cod-rna."""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

X, y = load_svmlight_file(str(Path(os.environ["DIMARGIN_DATA"]) / "cod-rna.bz2"))
X, order = X.toarray(), np.random.default_rng(0).permutation(len(y))
train = order[y[order] == -1][:8000]
test = np.setdiff1d(order, train)[::10]
scaler = StandardScaler().fit(X[train])
detector = OneClassSVM(nu=0.05, gamma=0.5).fit(scaler.transform(X[train]))
values = detector.decision_function(scaler.transform(X[test]))
print(f"area under the ROC curve: {roc_auc_score(y[test] == -1, values):.4f}, outliers: {(values < 0).mean():.4f}")
