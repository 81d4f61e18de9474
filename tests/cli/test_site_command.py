"""``dimargin site``: real processes on loopback, killed and restarted, beside the simulator."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from urllib.request import urlopen

import numpy as np
import pytest
from authority import Authority
from site_processes import ALPHA, CORESET, SITES, dealt_by_class, end, objective, run, told, trusting
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from text_files import write_csv
from waiting import free_port, wait_for

import dimargin

zenoh = pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'dimargin[peers]'")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_five_processes_find_what_the_simulator_finds_though_one_is_killed(tmp_path, started, rows):
    X, y = rows
    part = dealt_by_class(tmp_path, X, y)
    sites = [started(name, "--sites", "5") for name in SITES]
    wait_for(lambda: all(site.status()["steps"] > 30 for site in sites), "the first steps")
    victim = sites[2]
    victim.process.kill()
    victim.process.wait()
    assert victim.folder.model.exists()
    before = victim.status()["steps"]
    assert subprocess.run(
        [sys.executable, "-m", "dimargin", "predict", str(victim.folder.model), str(tmp_path / "north.csv"), "--quiet"],
        capture_output=True,
    ).returncode == 0  # fmt: skip
    victim.process.stderr.close()
    victim.start()
    scaled = MinMaxScaler().fit_transform(X)
    simulated = dimargin.GossipSVMClassifier(n_sites=5, alpha=ALPHA, shards=part, fit_intercept=True, random_state=0)
    expected = objective(scaled, y, simulated.fit(scaled, y))

    def is_as_good(site):  # on a busy machine, where processes hear each other seldom, it takes more steps
        found = objective(scaled, y, dimargin.load(site.folder.model)[-1])
        return site.status()["steps"] > before + 100 and found == pytest.approx(expected, rel=1e-2)

    wait_for(lambda: all(map(is_as_good, sites)), "models as good as the simulator's", seconds=240)
    wait_for(lambda: sites[0].status()["converged"], "an end to progress", seconds=240)
    status = subprocess.run(
        [*sites[0].command[:4], "--name", "north", "--folder", str(sites[0].folder.path), "--status"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "569 at 5 sites, 0 shared" in status and "converged" in status and "centre, east, south, west" in status
    assert end(sites) == [0] * 5

    for site in sites:
        model = dimargin.load(site.folder.model)
        np.testing.assert_allclose(model[0].transform(X), scaled, atol=1e-12)
        assert objective(scaled, y, model[-1]) == pytest.approx(expected, rel=1e-2)
    assert [entry["incarnation"] for entry in told(victim, "started")] == [0, 1]
    assert not any(site.status()["refused"] for site in sites)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_processes_that_are_killed_end_with_the_optimum_of_those_that_stay(tmp_path, started, rows):
    """Ten kills, and a site that is lost for good."""
    X, y = rows
    part = dealt_by_class(tmp_path, X, y)
    sites = [started(name, "--sites", "5", "--algorithm", "admm", "--interval", "0.05") for name in SITES]
    wait_for(lambda: all(site.status()["steps"] > 5 for site in sites), "the first rounds")
    for k in range(10):
        victim = sites[1 + k % 4]
        victim.process.kill()
        victim.process.wait()
        victim.process.stderr.close()
        victim.start()
        time.sleep(0.3)
    lost = sites.pop()
    lost.process.kill()
    kept = part < 4
    scaled = MinMaxScaler().fit(X).transform(X[kept])
    central = LinearSVC(loss="hinge", C=1 / (ALPHA * kept.sum()), fit_intercept=False, tol=1e-8, max_iter=10**6)
    ones, signs = np.column_stack([scaled, np.ones(len(scaled))]), np.where(y[kept] == np.unique(y)[1], 1.0, -1.0)
    w = central.fit(ones, signs).coef_[0]
    best = ALPHA / 2 * w @ w + np.maximum(0, 1 - signs * (ones @ w)).mean()

    def has_ended(site):
        status = site.status()
        return status.get("certified") == {"rows": int(kept.sum()), "sites": 4} and status["converged"]

    wait_for(lambda: all(map(has_ended, sites)), "a certificate of the sites that stay", seconds=120)
    assert end(sites) == [0] * 4
    models = [dimargin.load(site.folder.model)[-1] for site in sites]
    for model in models:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert best <= model.objective_ * (1 + 1e-9) and model.objective_ <= best * 1.001
        assert model.dual_objective_ <= best * (1 + 1e-9)
        assert objective(scaled, y[kept], model) == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_processes_agree_on_few_rows_though_one_is_killed(tmp_path, started, rows):
    """The machine of all rows, at sites that have one class each, with rows that came late; what left is counted."""
    X, y = rows
    order = np.argsort(y, kind="stable")
    part = np.empty(len(y), dtype=int)
    part[order] = np.arange(len(y)) * 3 // len(y)
    late = np.flatnonzero(part == 0)[-30:]
    part[late] = -1
    for k, name in enumerate(SITES[:3]):
        write_csv(tmp_path / f"{name}.csv", X[part == k], y[part == k])
    flags = *CORESET, "--no-scale", "--gamma", "1e-5", "--sites", "3", "--lease", "1"
    sites = [started(name, *flags) for name in SITES[:3]]
    wait_for(lambda: all(site.status()["steps"] for site in sites), "the first core-sets")
    victim = sites[1]
    victim.process.kill()
    victim.process.wait()
    victim.process.stderr.close()
    victim.start()
    wait_for(lambda: all(site.status().get("converged") for site in sites), "agreement")
    write_csv(tmp_path / "north.csv", X[late], y[late], mode="a")
    wait_for(lambda: told(sites[0], "rows appended"), "the rows appended")
    wait_for(lambda: all(s.status()["rows"] == len(y) and s.status()["converged"] for s in sites), "agreement again")
    assert end(sites) == [0] * 3
    whole = dimargin.CoreSetSVMClassifier(gamma=1e-5, tol=1e-5).fit(X, y)
    everything = tmp_path / "all.csv"
    write_csv(everything, X, y)
    for site in sites:
        model = dimargin.load(site.folder.model)[-1]
        assert model.status_ == "converged" and model.classes_.tolist() == ["benign", "malignant"]
        assert model.dual_objective_ <= whole.objective_ * (1 + 1e-9) and model.objective_ >= whole.dual_objective_
        assert model.dual_objective_ == pytest.approx(whole.objective_, rel=1e-3)
        shared = [entry for entry in told(site, "rows shared")]
        status = site.status()
        assert status["rows_shared"] == len({row for entry in shared for row in entry["rows"]}) < len(y) / 2
        assert status["core_set"] == len(model.support_) and not status["refused"]
    assert [entry["incarnation"] for entry in told(victim, "started")] == [0, 1]
    told_of = subprocess.run(
        [sys.executable, "-m", "dimargin", "info", str(sites[2].folder.model), "--certify", str(everything)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "global" in told_of
    status = run("--name", "north", "--folder", str(sites[0].folder.path), "--status").stdout
    assert f"core-set             {len(model.support_)} rows" in status and " shared" in status


@pytest.mark.nightly
def test_sites_find_outliers_without_labels(tmp_path, started):
    X = np.random.default_rng(0).normal(size=(90, 3))
    for k, name in enumerate(SITES[:2]):
        write_csv(tmp_path / f"{name}.csv", X[k::2])
    flags = [*CORESET, "--kind", "svdd", "--C", "inf", "--kernel", "linear", "--no-scale", "--lease", "1"]
    flags += ["--tol", "1e-6"]
    sites = [started(name, *flags) for name in SITES[:2]]
    wait_for(lambda: all(site.status().get("converged") for site in sites), "agreement")
    assert end(sites) == [0] * 2
    ball = dimargin.minimum_enclosing_ball(X, 0)
    detector = dimargin.load(sites[1].folder.model)[-1]
    np.testing.assert_allclose(detector.center_, ball.center, atol=1e-5)
    assert detector.radius_ == pytest.approx(ball.radius, rel=1e-5)
    write_csv(tmp_path / "new.csv", np.array([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]]))
    predicted = subprocess.run(
        [sys.executable, "-m", "dimargin", "predict", str(sites[0].folder.model), str(tmp_path / "new.csv"), "--quiet"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert predicted.split() == ["1", "-1"]


@pytest.mark.slow
def test_a_site_of_other_terms_is_refused_by_name_and_rows_may_be_appended(tmp_path, started, rows):
    X, y = rows
    for k, name in enumerate(SITES[:3]):
        write_csv(tmp_path / f"{name}.csv", X[k:450:3], y[k:450:3])
    first, second = (started(name, "--settle", "1") for name in SITES[:2])
    stranger = started(SITES[2], "--gradient", "local")
    wait_for(lambda: "south" in first.status()["refused"] and "north" in stranger.status()["refused"], "a refusal")
    assert "gradient is 'local' there and 'tracked' here" in first.status()["refused"]["south"]
    wait_for(lambda: min(first.status()["steps"], second.status()["steps"]) > 5, "steps without the stranger")
    write_csv(tmp_path / "east.csv", X[450:], y[450:], mode="a")
    wait_for(lambda: first.status()["sites"].get("east") == 150 + 119, "the rows appended elsewhere")
    assert end([first, second, stranger]) == [0] * 3
    assert [entry["rows"] for entry in told(second, "rows appended")] == [119]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_private_sites_spend_their_budget_once_though_one_is_killed(tmp_path, started, rows):
    X, y = rows
    X = MinMaxScaler().fit_transform(X) / 5**0.5  # In a test, the ranges of columns are known.
    for k, name in enumerate(SITES[:2]):
        write_csv(tmp_path / f"{name}.csv", X[k::2], y[k::2])
    private = (
        "--algorithm",
        "admm",
        "--no-scale",
        "--epsilon",
        "100",
        "--rounds",
        "15",
        "--sites",
        "2",
        "--alpha",
        "1e-3",
    )
    first, second = sites = [started(name, *private, "--interval", "0.05") for name in SITES[:2]]
    wait_for(lambda: second.status().get("privacy", {}).get("releases", 0) > 3, "a few releases")
    second.process.kill()
    second.end()
    assert second.status()["privacy"]["releases"] < 15
    second.start()
    wait_for(lambda: all(site.status().get("converged") for site in sites), "the end of both budgets")
    assert end(sites) == [0] * 2
    assert [fact["releases"] for site in sites for fact in told(site, "privacy budget spent")] == [15, 15]
    printed = run("--name", "north", "--folder", str(first.folder.path), "--status").stdout
    assert "epsilon 100 of 100 spent, delta 1e-05, 15 of 15 releases" in printed
    info = [sys.executable, "-m", "dimargin", "info", str(first.folder.model), "--json"]
    facts = json.loads(subprocess.run(info, capture_output=True, text=True, check=True).stdout)
    assert (facts["epsilon"], facts["delta"], facts["status"]) == (100.0, 1e-5, "budget_spent")
    assert "privacy" in facts and dimargin.load(first.folder.model).score(X, y) > 0.85


@pytest.mark.slow
def test_members_learn_and_others_stay_alone(tmp_path, started, rows):
    X, y = rows
    authority = Authority(tmp_path, "authority")

    def member(name, *allowed):
        return started(name, *trusting(authority, name, *allowed), "--settle", "1", protocol="tls")

    for k, name in enumerate(SITES[:4]):
        write_csv(tmp_path / f"{name}.csv", X[k::4], y[k::4])
    north, east = member("north", "east"), member("east", "north")
    unlisted, plain = member("south", "north", "east"), started("west", "--settle", "1")
    others = [unlisted, plain]
    wait_for(lambda: min(site.status()["steps"] for site in (north, east)) > 20, "steps of the members")
    wait_for(lambda: all(told(site, "waiting for others") for site in others), "the others' complaint")
    wait_for(lambda: north.status()["refused"] and len(unlisted.status()["refused"]) == 2, "refusals at both ends")
    assert north.status()["sites"] == {"north": 143, "east": 142}
    assert set(north.status()["refused"]) == {"south"} and set(unlisted.status()["refused"]) == {"north", "east"}
    assert [entry["about"] for entry in told(north, "refused")] == ["south"]
    assert all(site.status()["steps"] == 0 and not site.status()["neighbours"] for site in others)
    assert end([north, east, *others]) == [0] * 4


@pytest.mark.slow
def test_sites_learn_through_a_router(tmp_path, started, rows):
    X, y = rows
    authority, names = Authority(tmp_path, "authority"), SITES[1:3]
    certificate, key = map(str, authority.member("router"))
    config = zenoh.Config()
    for setting, value in {
        "mode": "router",
        "listen/endpoints": [f"tls/127.0.0.1:{started.port}"],
        "scouting/multicast/enabled": False,
        "transport/link/tls": {
            "enable_mtls": True, "root_ca_certificate": str(authority.path), "listen_certificate": certificate,
            "listen_private_key": key,
        },
    }.items():  # fmt: skip
        config.insert_json5(setting, json.dumps(value))
    with zenoh.open(config):
        for k, name in enumerate(names):
            write_csv(tmp_path / f"{name}.csv", X[k::2], y[k::2])
        through = "--router", "--router-name", "router", "--settle", "1"
        sites = [started(name, *trusting(authority, name, *names), *through, protocol="tls") for name in names]
        wait_for(lambda: min(site.status()["steps"] for site in sites) > 20, "steps")
        assert [site.status()["neighbours"] for site in sites] == [["south"], ["east"]]
        assert end(sites) == [0, 0]


@pytest.mark.slow
def test_metrics_are_served_while_other_clients_are_slow(tmp_path, started, rows):
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    X, y = rows
    for k, name in enumerate(SITES[:2]):
        write_csv(tmp_path / f"{name}.csv", X[k::2], y[k::2])
    port, flags = free_port(), ("--algorithm", "admm", "--sites", "2")
    north, east = started(SITES[0], *flags, "--metrics", str(port)), started(SITES[1], *flags)

    def scraped():
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            families = parser.text_string_to_metric_families(answer.read().decode())
        return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}

    wait_for(lambda: north.status()["steps"] > 5 and north.status()["objective"], "the first certificate")
    with contextlib.ExitStack() as crowd:
        for _ in range(5):
            client = crowd.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(b"GET /metrics")
        began = time.time()
        found = scraped()
        assert north.status()["time"] > began + 5  # The first clients held the server for two seconds each.
    assert found["dimargin_rows",] == len(y) and found["dimargin_site_rows", "east"] == len(y) // 2
    assert found["dimargin_received_bytes_total", "east"] > 0 and found["dimargin_gap_ratio",] < 1
    wait_for(lambda: scraped()["dimargin_converged",], "newer metrics")
    page = tmp_path / "network.html"
    assert run("--name", "north", "--folder", str(north.folder.path), "--page", str(page)).returncode == 0
    assert "569 rows at 2 sites" in page.read_text() and "<polyline" in page.read_text()
    taken = run("--name", "other", "--data", str(tmp_path / "east.csv"), "--metrics", str(port))
    assert taken.returncode == 1 and f"--metrics {port}: cannot listen there: Address already in use" in taken.stderr
    assert end([north, east]) == [0] * 2
