"""Sites with their files in a folder of a test, and the flowers from which they learn."""

import numpy as np
from sklearn.datasets import load_iris

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
