"""GridSearchCV over C and gamma of SVC, on svmguide1."""

import os
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

X, y = load_svmlight_file(str(Path(os.environ["DIMARGIN_DATA"]) / "svmguide1.bz2"))
pipeline = Pipeline([("scale", MinMaxScaler()), ("svc", SVC())])
grid = {"svc__C": [0.1, 1, 10, 100, 1000], "svc__gamma": [0.1, 1, 10, 100]}
search = GridSearchCV(pipeline, grid, cv=5).fit(X.toarray(), y)
print(f"accuracy: {search.best_score_:.4f}, C: {search.best_params_['svc__C']}")
print(f"gamma: {search.best_params_['svc__gamma']}, mean of all: {search.cv_results_['mean_test_score'].mean():.4f}")
