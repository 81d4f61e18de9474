"""Data files that tests write, and messages that they read."""

import numpy as np
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


def words_of(text):
    """The words of a message, wherever its lines end and whatever frames them."""
    return " ".join(text.replace("│", " ").split())
