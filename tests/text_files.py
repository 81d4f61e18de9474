"""Tables and data files that tests write, and messages that they read."""

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons


def write_csv(path, X, y=None, names=None, mode="w"):
    """Write rows, and their labels in a column "class"; with mode "a", append them to a file that has its header."""
    with open(path, mode) as file:
        if mode == "w":
            columns = names or [f"f{k}" for k in range(X.shape[1])]
            file.write(",".join([*columns, *([] if y is None else ["class"])]) + "\n")
        for k, row in enumerate(np.asarray(X).tolist()):
            file.write(",".join([*map(repr, row), *([] if y is None else [str(y[k])])]) + "\n")


def write_moons(path, n, seed=0, names=("ham", "spam")):
    """Write two moons of n rows, and return the path."""
    X, y = make_moons(n, noise=0.2, random_state=seed)
    write_csv(path, X, np.array(names)[y], names=("left", "right"))
    return path


def people(n, seed):
    """People with a name, missing ages, jobs as texts, and dates."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": [f"p{k}" for k in range(n)],
            "age": rng.integers(18, 90, n).astype(float),
            "size": rng.normal(1.7, 0.1, n).round(2),
            "job": rng.choice(["nurse", "smith", "clerk"], n),
            "since": pd.date_range("2015-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    frame["class"] = np.where(frame.age + 20 * (frame.job == "nurse") > 60, "ill", "well")
    frame.loc[::9, "age"] = np.nan
    return frame


def measured(n=80):
    """Two columns of numbers, into which other cells can be put, and the class of each row."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)).round(4), columns=["a", "b"])
    return frame.astype(object).assign(label=np.where(frame.a + frame.b > 0, "yes", "no"))


def words_of(text):
    """The words of a message, wherever its lines end and whatever frames them."""
    return " ".join(text.replace("│", " ").split())
