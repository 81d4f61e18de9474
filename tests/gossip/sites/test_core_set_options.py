"""Sites that agree on few rows, with their files, on the simulated network: models are those of all rows together."""

import json

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import site_files
from site_files import deal, sites, write_libsvm
from sklearn.preprocessing import MinMaxScaler
from text_files import write_csv

import dimargin
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.sites.core_set_options import CoreSetOptions
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.gossip.topology import make_graph
from dimargin.io.data.growing_file import GrowingFile

FAST = {"interval": 1.0, "lease": 5.0, "settle": 3.0, "poll": 2.0}
DETECTORS = {"svdd": dimargin.CoreSetSVDD, "one-class": dimargin.OneClassCoreSetSVM}


def run(tmp_path, parts, options, until=200, topology="ring", conditions=None, suffix="csv"):
    graph = make_graph(topology, len(parts))
    simulator = Simulator(sites(tmp_path, parts, options, suffix), graph, conditions)
    simulator.run(until=until)
    for program in simulator.programs.values():  # as at the end of a live site
        program.write_model()
        program.write_status()
    return simulator


def machine_of(tmp_path, name):
    """The scaler and the machine of a site's model file."""
    return dimargin.load(tmp_path / name / "model.dimargin")


def names(simulator, output=0):
    """The core-set that all sites have."""
    found = {program.learner.machines[output].chosen.points.names for program in simulator.programs.values()}
    assert len(found) == 1
    return next(iter(found))


@pytest.fixture
def flowers():
    return site_files.flowers()


@pytest.mark.slow_after(1)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_the_classifier_is_that_of_all_rows_though_each_site_has_one_class(tmp_path, flowers, classes, kernel):
    X, y = flowers
    kept = y != "setosa" if classes == 2 else y == y
    X, y, labels = X[kept], y[kept], np.unique(y[kept])
    for name in labels:
        write_csv(tmp_path / f"{name}.csv", X[y == name], y[y == name])
    options = CoreSetOptions(kernel=kernel, C=2.0, coef0=1.0, degree=2, tol=1e-4, **FAST)
    simulator = run(tmp_path, labels.tolist(), options, conditions=Conditions(LinkFaults(loss=0.2)))
    scaled = MinMaxScaler().fit_transform(X)
    whole = dimargin.CoreSetSVMClassifier(
        2.0, kernel=kernel, gamma=0.25, coef0=1.0, degree=2, tol=1e-6, random_state=0
    ).fit(scaled, y)
    for name in labels:
        scaler, machine = machine_of(tmp_path, name)[0], machine_of(tmp_path, name)[-1]
        np.testing.assert_allclose(scaler.transform(X), scaled, atol=1e-12)
        assert machine.classes_.tolist() == labels.tolist() and machine.status_ == "converged"
        np.testing.assert_allclose(
            machine.decision_function(scaled),
            whole.decision_function(scaled),
            atol=0.02 * np.abs(whole.dual_coef_).max(),
        )
        dual, primal = np.atleast_1d(machine.dual_objective_), np.atleast_1d(machine.objective_)
        best = np.atleast_1d(whole.objective_)
        assert (dual <= best * (1 + 1e-9)).all() and (primal >= best * (1 - 1e-5)).all()
        assert machine.duality_gap_ <= 1e-4 and machine.certificate_ == "estimated"
    held = [name for k in range(1 if classes == 2 else 3) for name in names(simulator, k)]
    counts = {label: len({name for name in held if name[0] == label}) for label in labels}
    assert dict(zip(labels, machine.n_support_.tolist(), strict=True)) == counts
    assert machine.support_vectors_.shape == (sum(counts.values()), 4)


@pytest.mark.slow_after(1)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("suffix", ["csv", "libsvm"])
@pytest.mark.parametrize(
    ("kind", "kernel", "C"),
    [("svdd", "rbf", 1.0), ("svdd", "linear", 1.0), ("svdd", "linear", np.inf), ("one-class", "rbf", 1.0)],
)
def test_detectors_need_no_labels(tmp_path, flowers, kind, kernel, C, suffix):
    X = flowers[0]
    deal(tmp_path, "abc", X, suffix=suffix)
    simulator = run(tmp_path, "abc", CoreSetOptions(kind=kind, kernel=kernel, C=C, tol=1e-4, **FAST), suffix=suffix)
    model = machine_of(tmp_path, "b")
    scaled, detector = model[0].transform(X), model[-1]
    whole = DETECTORS[kind](C, kernel=kernel, gamma=0.25, tol=1e-6, random_state=0).fit(scaled)
    np.testing.assert_allclose(detector.score_samples(scaled), whole.score_samples(scaled), atol=2e-3)
    assert detector.offset_ == pytest.approx(whole.offset_, rel=2e-3)
    assert detector.dual_objective_ <= whole.objective_ * (1 + 1e-9) and detector.duality_gap_ <= 1.1e-4
    assert detector.objective_ >= whole.objective_ * (1 - 1e-5)
    assert len(names(simulator)) == len(detector.support_) and simulator.programs["a"].schema.labels == ()


def test_what_leaves_is_counted_and_logged(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "abc", X, y)
    simulator = run(tmp_path, "abc", CoreSetOptions(**FAST))
    for name in "abc":
        said = [facts.facts for _, who, facts in simulator.reports if who == name and facts.what == "rows shared"]
        given = {row for facts in said for row in facts["rows"]}
        status = SiteFolder(tmp_path / name).read_status()
        assert status["rows_shared"] == len(given) > 0 and status["shares"] == "rows"
        assert status["core_set"] == len({one for k in range(3) for one in names(simulator, k)})
        assert {one.row for k in range(3) for one in names(simulator, k) if one.site == name} <= given
        json.dumps(said)


@pytest.mark.slow
def test_rows_appended_and_a_site_that_is_killed(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "abc", X[:90], y[:90])
    # one that never comes keeps the simulation going when all others have finished
    conditions = Conditions(joins={"never": 999.0}, outages=(Outage("b", 40.2, 60.2),))
    options, graph = CoreSetOptions(scale=False, **FAST), nx.complete_graph(3)
    graph.add_node(3)
    simulator = Simulator(sites(tmp_path, [*"abc", "never"], options), graph, conditions)
    simulator.run(until=50)
    assert simulator.programs["a"].learner.has_finished
    shared = simulator.sites["b"].last.learner.status()["rows_shared"]
    write_csv(tmp_path / "a.csv", X[90:], y[90:], mode="a")
    simulator.run(until=54)
    assert not simulator.programs["a"].learner.has_finished
    assert SiteFolder(tmp_path / "a").read_status()["converged"] is False
    simulator.run(until=140)
    programs = list(simulator.programs.values())
    assert all(program.learner.has_finished and program.n_rows == 150 for program in programs)
    assert programs[1].learner.status()["rows_shared"] >= shared > 0
    whole = dimargin.CoreSetSVMClassifier(gamma=0.25, random_state=0).fit(X, y)
    np.testing.assert_allclose(programs[2].learner.status()["dual_objective"], whole.dual_objective_, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_late_site_with_a_new_label_makes_all_begin_anew(tmp_path, flowers):
    X, y = flowers
    for name, label in zip("abc", np.unique(y), strict=True):
        write_csv(tmp_path / f"{name}.csv", X[y == label], y[y == label])
    options = CoreSetOptions(**FAST)
    alone = nx.Graph([(0, 1)])
    alone.add_node(2)

    def graph(seconds):
        return alone if seconds < 60 else nx.complete_graph(3)

    simulator = Simulator(sites(tmp_path, "abc", options), graph, Conditions(joins={"c": 60.0}))
    simulator.run(until=50)
    before = simulator.programs["a"]
    assert len(before.learner.machines) == 1 and before.learner.has_finished
    given = before.learner.machines[0].given
    simulator.run(until=130)
    for program in simulator.programs.values():
        learner = program.learner
        assert len(learner.machines) == 3 and learner.has_finished and not learner.neighbourhood.refused
    assert given <= simulator.programs["a"].learner.machines[0].given
    for k in range(3):
        assert names(simulator, k)
    model = machine_of(tmp_path, "a")
    frame = dimargin.load(tmp_path / "a" / "model.dimargin")
    assert frame[-1].classes_.tolist() == np.unique(y).tolist()
    assert (model[-1].predict(model[0].transform(X)) == y).mean() > 0.9


@pytest.mark.parametrize(("change", "words"), [({"C": 0.0}, "C must be"),
                                                ({"kind": "one-class", "C": np.inf}, "C must be"),
                                                ({"coef0": np.nan}, "coef0 must be"),
                                                ({"kernel": "poly", "coef0": -1.0}, "not positive semi-definite"),
                                                ({"gamma": -1.0}, "gamma must be above 0")])  # fmt: skip
def test_bad_options_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        CoreSetOptions(**change)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_the_hard_margin_machine_and_rows_that_have_none(tmp_path, flowers):
    """Setosa alone can be separated: sites that learn so have the machine, others say why they have none."""
    X, y = flowers
    options = CoreSetOptions(kernel="linear", C=np.inf, tol=1e-4, **FAST)
    for folder, others in (("hard", y != "none"), ("none", y != "setosa")):
        (tmp_path / folder).mkdir()
        labels = np.where(y == "setosa", "yes", "no") if folder == "hard" else y
        deal(tmp_path / folder, "abc", X[others], labels[others])
    run(tmp_path / "hard", "abc", options)
    scaled, labels = MinMaxScaler().fit_transform(X), np.where(y == "setosa", "yes", "no")
    whole = dimargin.CoreSetSVMClassifier(np.inf, kernel="linear", tol=1e-6, random_state=0).fit(scaled, labels)
    for name in "abc":
        machine = machine_of(tmp_path / "hard", name)[-1]
        np.testing.assert_allclose(machine.decision_function(scaled), whole.decision_function(scaled), atol=1e-2)
        assert machine.objective_ == pytest.approx(whole.objective_, rel=2e-4) and np.inf == machine.C
        assert SiteFolder(tmp_path / "hard" / name).read_status()["trouble"] == ""
    simulator = run(tmp_path / "none", "abc", options)
    said = {who: facts.facts["reason"] for _, who, facts in simulator.reports if facts.what == "not separated"}
    assert said.keys() == set("abc") and "converged" not in {facts.what for _, _, facts in simulator.reports}
    for name in "abc":
        status = SiteFolder(tmp_path / "none" / name).read_status()
        assert "C=inf asks for a hyperplane" in status["trouble"] == said[name] and not status["converged"]
        assert status["objective"] == status["dual_objective"] == [None]
        assert not (tmp_path / "none" / name / "model.dimargin").exists()


def test_sites_of_other_terms_refuse_each_other(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "ab", X, y)
    programs = sites(tmp_path, "a", CoreSetOptions(C=1.0, **FAST)) | sites(tmp_path, "b", CoreSetOptions(C=2.0, **FAST))
    simulator = Simulator(programs, make_graph("complete", 2))
    simulator.run(until=30)
    assert "C is 2.0 there and 1.0 here" in simulator.programs["a"].status()["refused"]["b"]


@pytest.mark.slow_after(1)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("suffix", ["csv", "libsvm"])
def test_whoever_has_all_rows_can_certify_the_model(tmp_path, flowers, suffix):
    """Rows come twice, some with another label, and in another order than the sites had them."""
    X, y = flowers
    X, y = np.concatenate([X, X[:20]]), np.concatenate([y, np.roll(y[:20], 1)])
    labels = y if suffix == "csv" else np.unique(y, return_inverse=True)[1]
    deal(tmp_path, "abc", X, labels, suffix)
    run(tmp_path, "abc", CoreSetOptions(C=0.5, **FAST), suffix=suffix)
    scaler, machine = machine_of(tmp_path, "b").named_steps.values()
    order = np.random.default_rng(1).permutation(len(y))
    rows, labels = scaler.transform(X[order]), labels[order]
    before, scores = np.array(machine.dual_objective_), machine.decision_function(rows)
    given = rows if suffix == "csv" else sp.csr_array(rows)
    machine.certify(given, labels)
    assert machine.certificate_ == "global" and 0 <= machine.duality_gap_ <= 1e-3
    np.testing.assert_allclose(machine.dual_objective_, before, rtol=1e-6)
    np.testing.assert_allclose(machine.decision_function(rows), scores, atol=1e-9)
    np.testing.assert_allclose(machine.support_vectors_, rows[machine.support_], atol=1e-12)
    whole = dimargin.CoreSetSVMClassifier(0.5, gamma=0.25, tol=1e-6).fit(rows, labels)
    assert (machine.objective_ >= whole.dual_objective_ * (1 - 1e-9)).all()
    machine.certify(given, labels)
    with pytest.raises(ValueError, match="a support vector is not among them"):
        machine_of(tmp_path, "b")[-1].certify(rows + 1e-3, labels)
    with pytest.raises(ValueError, match="not the rows that this model was fitted on"):
        machine.certify(given[1:], labels[1:])


def test_many_features_stay_sparse(tmp_path):
    """Texts, as it were; one site is so small that its file is dense."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    X = sp.random_array((120, 1500), density=0.02, rng=0, format="lil")
    X[np.arange(120), y] = 1.0
    X = X.tocsr()
    for name, part in {"a": slice(0, 60), "b": slice(60, 118), "c": slice(118, 120)}.items():
        write_libsvm(tmp_path / f"{name}.libsvm", X[part].toarray(), y[part])
    options = CoreSetOptions(kernel="linear", C=2.0, tol=1e-4, **FAST)
    run(tmp_path, "abc", options, suffix="libsvm")
    scaler, machine = machine_of(tmp_path, "c").named_steps.values()
    rows = scaler.transform(X[:, : scaler.n_features_in_])
    whole = dimargin.CoreSetSVMClassifier(2.0, kernel="linear", tol=1e-6).fit(rows, y)
    assert sp.issparse(machine.support_vectors_)
    np.testing.assert_allclose(machine.decision_function(rows), whole.decision_function(rows), atol=1e-3)
    for given in (rows, rows.toarray()):
        again = machine_of(tmp_path, "a")[-1].certify(given, y)
        assert again.certificate_ == "global" and again.duality_gap_ <= 1e-4


def test_a_model_that_is_as_it_was_is_not_written_again(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "ab", X, y)
    simulator = run(tmp_path, "ab", CoreSetOptions(**FAST))
    site, model = simulator.programs["a"], tmp_path / "a" / "model.dimargin"
    before = model.stat().st_ino
    list(site.wake(300.0, "round"))
    site.write_model()
    assert model.stat().st_ino == before
    site.write_model(durable=True)
    assert model.stat().st_ino != before
    model.unlink()
    site.write_model()
    assert model.exists()
    before = model.read_bytes()
    list(site.append(301.0, X[:1] + 9, y[:1], site._schema(GrowingFile(tmp_path / "a.csv").read())))
    list(site.wake(302.0, "round"))
    site.write_model()
    assert model.read_bytes() != before
