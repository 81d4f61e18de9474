"""Sites that learn a kernel machine by gossip of random features, on the simulated network."""

import warnings

import numpy as np
import pytest
from site_files import deal, sites
from sklearn.datasets import make_circles
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from text_files import write_csv

import dimargin
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.sites.gossip_options import GossipOptions
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.gossip.topology import make_graph

FAST = {"alpha": 1e-2, "interval": 1.0, "lease": 5.0, "settle": 3.0, "poll": 2.0}
RBF = {"kernel": "rbf", "gamma": 8.0, "features": 60, "feature_seed": 3}


@pytest.fixture
def circles():
    X, y = make_circles(120, noise=0.1, factor=0.4, random_state=0)
    return X, np.where(y == 1, "inside", "outside")


def kernel_sites(tmp_path, names, **options):
    return sites(tmp_path, names, GossipOptions(**FAST, **{**RBF, **options}))


def model_of(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dimargin.load(tmp_path / name / "model.dimargin")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("weather", "intercept"),
    [(Conditions(), True), (Conditions.asynchronous(loss=0.3, duplication=0.2), False)],
    ids=["fair", "bad"],
)
def test_the_machine_is_that_of_all_rows_on_the_features(tmp_path, circles, weather, intercept):
    """Sites with one class each; LIBLINEAR on the same features has the objective, and the file predicts alone."""
    X, y = circles
    for name, label in (("north", "inside"), ("south", "outside")):
        write_csv(tmp_path / f"{name}.csv", X[y == label], y[y == label])
    programs = kernel_sites(tmp_path, ["north", "south"], fit_intercept=intercept)
    simulator = Simulator(programs, make_graph("complete", 2), weather)
    simulator.run(until=250)
    for program in simulator.programs.values():
        program.write_model()
        program.write_status()
    scaled = MinMaxScaler().fit_transform(X)
    features = FourierFeatures(8.0, 30, 3).fit_transform(scaled)
    rival = LinearSVC(C=1 / (1e-2 * 120), loss="hinge", fit_intercept=intercept, tol=1e-6, max_iter=10**6)
    w = rival.fit(features, y)
    square = (w.coef_**2).sum() + (w.intercept_**2 if intercept else 0.0)
    margins = np.where(y == "outside", 1, -1) * w.decision_function(features)
    best = float(np.squeeze(0.5e-2 * square + np.maximum(1 - margins, 0).mean()))
    for name in ("north", "south"):
        model = model_of(tmp_path, name)
        assert [type(step).__name__ for _, step in model.steps] == [
            "MinMaxScaler", "FourierFeatures", "GossipSVMClassifier",
        ]  # fmt: skip
        assert model[1].frequencies_.shape == (2, 30) and model[-1].coef_.shape == (1, 60)
        own = model.decision_function(X)
        norm = (model[-1].coef_ ** 2).sum() + float(model[-1].intercept_[0]) ** 2
        objective = 0.5e-2 * norm + np.maximum(1 - np.where(y == "outside", 1, -1) * own, 0).mean()
        assert best * (1 - 1e-6) <= objective <= best * 1.05
        assert (model.predict(X) == y).mean() > 0.95
        assert SiteFolder(tmp_path / name).read_status()["rows_shared"] == 0


@pytest.mark.parametrize("change", [{"feature_seed": 4}, {"features": 62}, {"gamma": 7.0}, {"kernel": "linear"}])
def test_sites_of_other_features_refuse_each_other(tmp_path, circles, change):
    deal(tmp_path, "ab", circles[0], circles[1])
    programs = kernel_sites(tmp_path, "a") | kernel_sites(tmp_path, "b", **change)
    simulator = Simulator(programs, make_graph("complete", 2))
    simulator.run(until=30)
    assert "there and" in simulator.programs["a"].status()["refused"]["b"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_late_site_with_a_new_label_makes_all_begin_anew(tmp_path, circles):
    X, y = circles
    inner = np.where(np.linalg.norm(X, axis=1) < 0.3, "middle", y)
    for name, own in (("a", X[:, 0] > 0), ("b", X[:, 0] <= 0)):
        mine = own & (inner != "middle")
        write_csv(tmp_path / f"{name}.csv", X[mine], inner[mine])
    write_csv(tmp_path / "c.csv", X[inner == "middle"], inner[inner == "middle"])
    simulator = Simulator(kernel_sites(tmp_path, "abc"), make_graph("complete", 3), Conditions(joins={"c": 60.0}))
    simulator.run(until=220)
    for name, program in simulator.programs.items():
        program.write_model()
        model = model_of(tmp_path, name)
        assert model.classes_.tolist() == ["inside", "middle", "outside"] and model[-1].coef_.shape == (3, 60)
        assert (model.predict(X) == inner).mean() > 0.8
        assert not program.status()["refused"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "poly"}, "kernel must be 'linear' or 'rbf'"), ({"gamma": 0.0}, "gamma must be in"),
        ({"features": 0}, "features must be"),
        ({"features": 61}, "features must be an even number"),
        ({"feature_seed": -1}, "feature_seed must be"),
    ],
)  # fmt: skip
def test_bad_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        GossipOptions(**{**RBF, **options})
