"""Sites with their files in a folder of a test, and the flowers from which they learn."""

import numpy as np
from sklearn.datasets import load_iris
from text_files import write_csv

from dimargin.gossip.sites.learning_site import LearningSite
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.io.data.growing_file import GrowingFile
from dimargin.io.models.model_values import content_of_site


def flowers():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    return X[order], np.array(["setosa", "versicolor", "virginica"])[y[order]]


def sites(folder, names, options, suffix="csv"):
    """Functions that make the sites of these names, each of which has a data file."""

    def make(name):
        (folder / name).mkdir(exist_ok=True)
        data = GrowingFile(folder / f"{name}.{suffix}", needs_label=options.uses_labels)
        return LearningSite(name, data, SiteFolder(folder / name), options, content_of_site)

    return {name: lambda name=name: make(name) for name in names}


def write_libsvm(path, X, y=None):
    """Write rows as LIBSVM text, without zeros; labels are zero by default."""
    with open(path, "w") as file:
        for k, row in enumerate(X.tolist()):
            pairs = [f"{j + 1}:{value!r}" for j, value in enumerate(row) if value]
            file.write(" ".join([str(0 if y is None else y[k]), *pairs]) + "\n")


def deal(folder, names, X, y=None, suffix="csv"):
    """Write the data files of sites, each of which gets every n-th row."""
    for k, name in enumerate(names):
        own = slice(k, None, len(names))
        write = write_csv if suffix == "csv" else write_libsvm
        write(folder / f"{name}.{suffix}", X[own], None if y is None else y[own])
