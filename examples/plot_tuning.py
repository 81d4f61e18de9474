"""
Successive halving over parameters
==================================

`SVMClassifierCV` tries all candidates on few rows, the best third on three times as many, and so on. The picture shows
all candidates. The task is to tell handwritten digits below five from the others. `ODMClassifierCV` searches for an ODM
in the same way.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dimargin import SVMClassifierCV, TuningDisplay

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y >= 5, test_size=0.3, stratify=y, random_state=0)
search = SVMClassifierCV(min_rows=250, random_state=0, verbose=1).fit(X, y)
print(f"{search.best_params_}, test accuracy {search.score(X_test, y_test):.3f}")

display = TuningDisplay.from_estimator(search)
display.ax_.set_title("Digits below five or not: accuracy, %", fontsize="medium")
plt.show()
