"""What ODMClassifierCV tries, on a data set that scikit-learn ships.

    python examples/plot_tuning.py [PICTURE]

Writes PICTURE (build/plot_tuning.png) and nothing else.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a file, not a window

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dimargin import ODMClassifierCV, TuningDisplay

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "build/plot_tuning.png")

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y >= 5, test_size=0.3, stratify=y, random_state=0)
search = ODMClassifierCV(min_rows=250, random_state=0, verbose=1).fit(X, y)
print(f"{search.best_params_}, test accuracy {search.score(X_test, y_test):.3f}")

display = TuningDisplay.from_estimator(search)
display.ax_.set_title("Digits below five or not: accuracy, %", fontsize="medium")
picture.parent.mkdir(parents=True, exist_ok=True)
display.figure_.savefig(picture, dpi=110)
print(f"Saved {picture}")
