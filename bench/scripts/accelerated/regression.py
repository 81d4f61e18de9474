"""SVR with scaled features and a logarithm of the target, on 10,000 synthetic rows."""

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

X, y = make_friedman1(10_000, 8, noise=1.0, random_state=0)
y = np.exp(y / 10.0)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
regressor = make_pipeline(StandardScaler(), SVR(C=10.0, epsilon=0.05))
model = TransformedTargetRegressor(regressor, func=np.log, inverse_func=np.exp).fit(X, y)
error = mean_absolute_error(y_test, model.predict(X_test))
print(f"r2: {model.score(X_test, y_test):.4f}, mean absolute error: {error:.4f}")
