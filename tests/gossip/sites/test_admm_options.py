"""Sites that learn from files by consensus ADMM, on the simulated network."""

import subprocess
import sys
import warnings

import numpy as np
import pandas
import pytest
import site_files
from numpy.testing import assert_allclose
from site_files import deal
from sklearn.datasets import make_circles
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from text_files import write_csv

import dimargin
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.gossip.messages import encode
from dimargin.gossip.rounds.privacy import Privacy
from dimargin.gossip.schema import Schema
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.sites.admm_options import ADMMOptions
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.gossip.topology import make_graph

FAST = {"alpha": 1e-2, "interval": 1.0, "lease": 5.0, "settle": 3.0, "poll": 2.0}
SITES = ["north", "south", "west"]


def sites(folder, names=SITES, **options):
    return site_files.sites(folder, names, ADMMOptions(**{**FAST, **options}))


@pytest.fixture(autouse=True)
def _endless(monkeypatch):
    """Runs end with time only, as those of real sites."""
    monkeypatch.setattr(Simulator, "_all_stopped", False)


@pytest.fixture
def flowers():
    return site_files.flowers()


def model_of(folder, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dimargin.load(folder / name / "model.dimargin")


def frame_of(X):
    return pandas.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])


def by_label(folder, X, y):
    """Every site has one class."""
    for name, label in zip(SITES, np.unique(y), strict=True):
        write_csv(folder / f"{name}.csv", X[y == label], y[y == label])


def central(X, y, loss="hinge"):
    """Objectives and accuracy of one machine per label on all rows, scaled as sites scale them."""
    scaled = np.column_stack([MinMaxScaler().fit_transform(X), np.ones(len(X))])
    found = []
    for label in np.unique(y):
        signs = np.where(y == label, 1.0, -1.0)
        machine = LinearSVC(loss=loss, C=1 / (1e-2 * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6)
        w = machine.fit(scaled, signs).coef_[0]
        losses = np.maximum(0, 1 - signs * (scaled @ w)) ** (1 if loss == "hinge" else 2)
        found.append(5e-3 * w @ w + losses.mean())
    return np.array(found)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_all_sites_write_the_certified_machine_of_all_rows(tmp_path, flowers, loss):
    X, y = flowers
    by_label(tmp_path, X, y)
    simulator = Simulator(sites(tmp_path, loss_function=loss), make_graph("ring", 3))
    simulator.run(until=250)
    models, best = [model_of(tmp_path, name) for name in SITES], central(X, y, loss)
    for name, model in zip(SITES, models, strict=True):
        machine, status = model[-1], SiteFolder(tmp_path / name).read_status()
        assert machine.certificate_ == "network" and machine.status_ == "converged" and machine.algorithm == "admm"
        assert machine.duality_gap_ <= 1e-3 and status["converged"]
        assert status["certified"] == {"rows": 150, "sites": 3}
        assert (machine.objective_ >= best * (1 - 1e-6)).all() and (machine.objective_ <= best * 1.001).all()
        assert (machine.dual_objective_ <= best * (1 + 1e-6)).all()
        assert np.array_equal(machine.coef_, models[0][-1].coef_)
    # Another program computes the certificate from all rows.
    own = models[0][-1].objective_.copy()
    machine = models[0][-1].certify(models[0][:-1].transform(frame_of(X)), y)
    assert machine.certificate_ == "global"
    assert_allclose(machine.objective_, own, rtol=1e-9)


def test_rows_and_labels_that_are_appended_are_learnt(tmp_path, flowers):
    X, y = flowers
    known = y != "virginica"
    deal(tmp_path, SITES, X[known], y[known])
    simulator = Simulator(sites(tmp_path), make_graph("ring", 3))
    simulator.run(until=60)
    assert model_of(tmp_path, "west")[-1].classes_.tolist() == ["setosa", "versicolor"]
    write_csv(tmp_path / "more.csv", X[~known], y[~known])
    with open(tmp_path / "south.csv", "a") as file:
        file.writelines((tmp_path / "more.csv").read_text().splitlines(keepends=True)[1:])
    simulator.run(until=300)
    best = central(X, y)
    for name in SITES:
        machine = model_of(tmp_path, name)[-1]
        assert machine.classes_.tolist() == sorted(set(y)) and machine.status_ == "converged"
        # The range of values was agreed before, so that the scaling differs a little.
        assert SiteFolder(tmp_path / name).read_status()["certified"] == {"rows": 150, "sites": 3}
        assert_allclose(machine.objective_, best, rtol=0.4)


def test_where_members_may_lie_every_site_has_its_own_model(tmp_path, flowers):
    X, y = MinMaxScaler().fit_transform(flowers[0]), flowers[1]
    deal(tmp_path, SITES, X, y)
    simulator = Simulator(sites(tmp_path, liars=1, scale=False, alpha=1e-3), make_graph("ring", 3))
    simulator.run(until=250)
    for name in SITES:
        machine, status = model_of(tmp_path, name)[-1], SiteFolder(tmp_path / name).read_status()
        assert machine.certificate_ == "estimated" and machine.score(frame_of(X), y) >= 0.9
        assert (machine.dual_objective_ == 0).all() and machine.duality_gap_ == 1
        assert "certified" not in status and status["converged"] and machine.status_ == "converged"


def test_a_site_loads_nothing_that_takes_much_memory():
    """The promise of 90 MB per process: bench/scripts/bench_sites.py."""
    program = (
        "import sys, dimargin.cli.site, dimargin.gossip.live, dimargin.gossip.zenoh_link\n"
        "import dimargin.io.data.growing_file, dimargin.gossip.sites.learning_site\n"
        "import dimargin.gossip.sites.admm_options as options\n"
        "options.ADMMOptions(alpha=1e-3).algorithm\n"
        "heavy = 'dimargin._core', 'scipy.optimize', 'scipy.special', 'scipy.stats', 'sklearn', 'pandas', 'jinja2'\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "[]", found.stdout + found.stderr


def test_scaling_cannot_be_agreed_with_liars():
    with pytest.raises(ValueError, match="liars needs data that are scaled already, and --no-scale"):
        ADMMOptions(liars=1)


@pytest.mark.parametrize("loses_memory", [False, True])
def test_a_killed_site_comes_back(tmp_path, flowers, loses_memory):
    X, y = flowers
    by_label(tmp_path, X, y)
    weather = Conditions.asynchronous(loss=0.2, outages=(Outage("south", 15.3, 40.0, loses_memory),))
    simulator = Simulator(sites(tmp_path, lease=20.0), make_graph("ring", 3), weather)
    simulator.run(until=400)
    best = central(X, y)
    for name in SITES:
        machine = model_of(tmp_path, name)[-1]
        assert machine.status_ == "converged" and (machine.objective_ <= best * 1.001).all()
        assert SiteFolder(tmp_path / name).read_status()["certified"] == {"rows": 150, "sites": 3}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_random_features_of_a_kernel(tmp_path):
    X, y = make_circles(120, noise=0.1, factor=0.4, random_state=0)
    y = np.where(y == 1, "inside", "outside")
    for name, label in (("north", "inside"), ("south", "outside")):
        write_csv(tmp_path / f"{name}.csv", X[y == label], y[y == label])
    rbf = {"kernel": "rbf", "gamma": 8.0, "features": 60, "feature_seed": 3}
    simulator = Simulator(sites(tmp_path, SITES[:2], **rbf), make_graph("complete", 2))
    simulator.run(until=200)
    features = FourierFeatures(8.0, 30, 3).fit_transform(MinMaxScaler().fit_transform(X))
    rows, signs = np.column_stack([features, np.ones(len(X))]), np.where(y == "outside", 1.0, -1.0)
    rival = LinearSVC(C=1 / (1e-2 * 120), loss="hinge", fit_intercept=False, tol=1e-7, max_iter=10**6)
    w = rival.fit(rows, signs).coef_[0]
    best = 5e-3 * w @ w + np.maximum(0, 1 - signs * (rows @ w)).mean()
    for name in SITES[:2]:
        model = model_of(tmp_path, name)
        assert best * (1 - 1e-6) <= model[-1].objective_ <= best * 1.001 and model[-1].duality_gap_ <= 1e-3
        assert (model.predict(frame_of(X)) == y).mean() > 0.95


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rho": 0.0}, "rho must be a number above 0, got 0.0"),
        ({"over_relaxation": 2.0}, r"over_relaxation must be a number in \(0, 2\), got 2.0"),
        ({"levels": -1}, "levels must be a whole number"),
        ({"alpha": 0.0}, "alpha must be in"),
        ({"epsilon": 3.0}, "epsilon needs scale=False"),
        ({"epsilon": 3.0, "scale": False, "loss_function": "odm"}, "epsilon needs loss_function='hinge', got 'odm'"),
        ({"epsilon": 0.0, "scale": False}, "epsilon must be a number in"),
        ({"rounds": 10}, "rounds needs epsilon, the privacy budget"),
    ],
)
def test_parameters_out_of_range_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        ADMMOptions(**options)


def test_sites_of_other_parameters_are_refused(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, SITES[:2], X, y)
    programs = sites(tmp_path, SITES[:1]) | sites(tmp_path, SITES[1:2], levels=3)
    simulator = Simulator(programs, make_graph("complete", 2))
    simulator.run(until=30)
    refused = simulator.programs["north"].neighbourhood.refused
    assert refused["south"] == "levels is 3 there and 7 here"


def test_a_member_that_reports_enormous_numbers_of_rows_does_not_move_penalties():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    options = ADMMOptions(**FAST)
    schema = Schema.of(X, y, options.terms(None))
    rows = options.rows(X, y, schema)
    honest, with_liar = (
        options.learner("a", rows, schema, counts, (0,)).penalty
        for counts in ({"a": 8, "b": 8, "c": 8}, {"a": 8, "b": 8, "eve": 2**53})
    )
    assert honest == with_liar == 4 * 1e-2**0.5 * 8


# ---- privacy ---------------------------------------------------------------------------------------------------------

PRIVATE = {"epsilon": 3.0, "rounds": 8, "clip": 2.0, "scale": False}


def test_private_sites_say_what_they_have_spent(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, SITES, X / 5, y)
    simulator = Simulator(sites(tmp_path, **PRIVATE), make_graph("ring", 3))
    simulator.run(until=20)
    early = SiteFolder(tmp_path / "north").read_status()
    assert 0 < early["privacy"]["spent"] < 3 and not early["converged"]
    simulator.run(until=200)
    models = [model_of(tmp_path, name)[-1] for name in SITES]
    for name, machine in zip(SITES, models, strict=True):
        status = SiteFolder(tmp_path / name).read_status()
        assert status["converged"] and status["certified"] == {"rows": 0, "sites": 0}
        assert status["privacy"]["releases"] == 8 and status["privacy"]["spent"] == pytest.approx(3.0)
        assert (machine.epsilon_, machine.delta_, machine.status_) == (3.0, 1e-5, "budget_spent")
        assert_allclose(machine.coef_, models[0].coef_, atol=0.02 * np.abs(models[0].coef_).max())
        assert not hasattr(machine, "objective_")


def test_messages_of_private_sites_depend_on_releases_only(tmp_path, flowers, monkeypatch):
    """Cards, whose limits of columns are zero, and everything after them, for files with other rows at one site."""
    monkeypatch.setattr(Privacy, "release", lambda self, vector, s, k, rng: s * rng.normal(size=vector.shape))
    sent, send = {}, Simulator._send

    def recorded(self, name, site, one):
        messages.append((name, one.to, encode(one.message)))
        send(self, name, site, one)

    monkeypatch.setattr(Simulator, "_send", recorded)
    X, y = flowers
    for folder, factor in (("first", 1.0), ("second", -3.0)):
        (tmp_path / folder).mkdir()
        deal(tmp_path / folder, SITES, X, y)
        rows = np.arange(0, 150, 3)
        write_csv(tmp_path / folder / "north.csv", factor * X[rows][::-1], y[rows])
        messages = sent[folder] = []
        Simulator(sites(tmp_path / folder, **PRIVATE), make_graph("ring", 3)).run(until=120)
    assert len(sent["first"]) > 500 and sent["first"] == sent["second"]


@pytest.fixture
def made(monkeypatch):
    """The numbers of earlier releases of a site, for every release of any site."""
    found, release = [], Privacy.release
    monkeypatch.setattr(Privacy, "release", lambda *given: found.append(given[3]) or release(*given))
    return found


@pytest.mark.parametrize("until", [14.3, 30.3])
def test_a_killed_site_spends_its_budget_once(tmp_path, flowers, until, made):
    X, y = flowers
    deal(tmp_path, SITES, X, y)
    weather = Conditions(outages=(Outage("south", 9.3, until),))
    simulator = Simulator(sites(tmp_path, **PRIVATE), make_graph("ring", 3), weather)
    simulator.run(until=250)
    assert sorted(made) == sorted(3 * list(range(8)))
    assert {SiteFolder(tmp_path / name).read_status()["privacy"]["releases"] for name in SITES} == {8}


def test_new_labels_and_rows_begin_no_new_budget(tmp_path, flowers, made):
    X, y = flowers
    known = y != "virginica"
    deal(tmp_path, SITES, X[known], y[known])
    simulator = Simulator(sites(tmp_path, **PRIVATE), make_graph("ring", 3))
    simulator.run(until=100)
    write_csv(tmp_path / "more.csv", X[~known], y[~known])
    with open(tmp_path / "south.csv", "a") as file:
        file.writelines((tmp_path / "more.csv").read_text().splitlines(keepends=True)[1:])
    simulator.run(until=250)
    for name in SITES:
        status = SiteFolder(tmp_path / name).read_status()
        assert status["rows"] == 150 and status["privacy"]["releases"] == 8 and status["converged"]
    assert sorted(made) == sorted(3 * list(range(8)))


def test_a_site_of_another_budget_is_refused(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, SITES[:2], X, y)
    programs = sites(tmp_path, SITES[:1], **PRIVATE) | sites(tmp_path, SITES[1:2], **{**PRIVATE, "epsilon": 9.0})
    simulator = Simulator(programs, make_graph("complete", 2))
    simulator.run(until=30)
    assert simulator.programs["north"].neighbourhood.refused["south"] == "epsilon is 9.0 there and 3.0 here"


def test_noise_of_real_sites_is_secret_and_their_state_is_durable():
    options = ADMMOptions(**PRIVATE)
    assert options.algorithm.privacy.secret
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    schema = Schema.of(X, y, options.terms(None))
    learner = options.learner("a", options.rows(X, y, schema), schema, {"a": 8}, (0,))
    assert learner.needs_durable_state
    learner.rounds = 8 + 60
    assert not learner.needs_durable_state
    assert not ADMMOptions().learner("a", options.rows(X, y, schema), schema, {"a": 8}, (0,)).needs_durable_state
