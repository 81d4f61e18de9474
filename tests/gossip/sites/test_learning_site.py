"""A site with its files, on the simulated network: what it reads, writes and remembers."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pandas
import pytest
import site_files
from numpy.testing import assert_allclose
from site_files import deal
from sklearn.svm import LinearSVC
from text_files import write_csv

import dimargin
from dimargin.gossip.program import Report
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.sites import learning_site
from dimargin.gossip.sites.gossip_options import GossipOptions
from dimargin.gossip.sites.learning_site import json_log
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.gossip.topology import make_graph
from dimargin.io.data import DataFileError, read_data
from dimargin.io.data.growing_file import GrowingFile

OPTIONS = GossipOptions(alpha=1e-2, interval=1.0, lease=5.0, settle=3.0, poll=2.0)


@pytest.fixture
def flowers():
    return site_files.flowers()


def sites(tmp_path, names, suffix="csv"):
    return site_files.sites(tmp_path, names, OPTIONS, suffix)


def test_what_is_odd_about_the_file_is_reported_once(tmp_path, flowers):
    X, y = flowers
    frame = pandas.DataFrame(X, columns=["2019", "2020", "2021", "2022"]).assign(label=y)
    frame.to_csv(tmp_path / "north.csv")
    site = sites(tmp_path, ["north"])["north"]()
    found = [action.facts for action in site.start(0.0, []) if isinstance(action, Report)]
    said = "the first column, which has no name, is left out: it has the names or numbers of the rows"
    assert found[0]["file"] == str(tmp_path / "north.csv") and said in found[0]["remark"]
    assert site._schema(site._first).feature_names == ("2019", "2020", "2021", "2022") and site._first.X.shape == (
        150,
        4,
    )
    frame.to_csv(tmp_path / "north.csv", index_label="id")
    first = GrowingFile(tmp_path / "north.csv", header=True)
    assert "feature 'id' numbers the rows" in first.read().remarks[0]
    frame.rename(lambda k: k + 150).to_csv(tmp_path / "north.csv", mode="a", header=False)
    assert first.read().remarks == ()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # between the steps of the pipeline
def test_sites_learn_from_files_and_write_models_that_predict(tmp_path, flowers):
    X, y = flowers
    for name, label in (("north", "setosa"), ("south", "versicolor"), ("west", "virginica")):
        write_csv(tmp_path / f"{name}.csv", X[y == label], y[y == label])
    simulator = Simulator(sites(tmp_path, ["north", "south", "west"]), make_graph("ring", 3))
    simulator.run(until=250)
    write_csv(tmp_path / "all.csv", X, y)
    data = read_data(tmp_path / "all.csv")
    frame = pandas.DataFrame(data.X, columns=data.feature_names)
    for name in ("north", "south", "west"):
        assert (tmp_path / name / "model.dimargin").stat().st_mode & 0o077 == 0
        model = dimargin.load(tmp_path / name / "model.dimargin")
        assert (model.predict(frame) == y).mean() > 0.7
        assert model[0].data_max_.tolist() == X.max(axis=0).tolist()
        assert model[-1].certificate_ == "estimated" and model[-1].classes_.tolist() == sorted(set(y))
        status = SiteFolder(tmp_path / name).read_status()
        assert status["rows"] == 150 and status["rows_shared"] == 0 and status["age"] < 60
        assert status["sites"] == {"north": 50, "south": 50, "west": 50}
    run = subprocess.run(
        [sys.executable, "-m", "dimargin", "predict", str(tmp_path / "north/model.dimargin"), f"{tmp_path}/all.csv"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    north = dimargin.load(tmp_path / "north" / "model.dimargin")
    assert run.stdout.split() == north.predict(frame).tolist()
    subprocess.run(
        [*run.args[:3], "info", run.args[4], "--certify", run.args[5]], capture_output=True, text=True, check=True
    )
    certified = dimargin.load(tmp_path / "north" / "model.dimargin")[-1]
    assert certified.certificate_ == "global" and 0 < certified.duality_gap_ < 0.05
    assert_allclose(certified.objective_, north[-1].objective_, rtol=0.02)


@pytest.mark.slow
def test_the_model_is_that_of_all_rows_together(tmp_path, flowers):
    X, y = flowers
    X, y = X[y != "setosa"], np.where(y[y != "setosa"] == "virginica", 2, 1)
    deal(tmp_path, "ab", X, y, "libsvm")
    simulator = Simulator(sites(tmp_path, "ab", suffix="libsvm"), make_graph("complete", 2))
    simulator.run(until=400)
    model = dimargin.load(tmp_path / "a" / "model.dimargin")
    rows = np.column_stack([X / X.max(axis=0), np.ones(len(X))])
    signs = np.where(y == 2, 1.0, -1.0)
    central = LinearSVC(loss="hinge", C=1 / (1e-2 * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    best, found = (
        1e-2 / 2 * w @ w + np.maximum(0, 1 - signs * (rows @ w)).mean()
        for w in (central.fit(rows, signs).coef_[0], np.append(model[-1].coef_[0], model[-1].intercept_))
    )
    assert found <= 1.02 * best and model[-1].objective_ == pytest.approx(found, rel=0.02)
    assert model[-1].dual_objective_ <= best * 1.01


def test_a_model_is_written_with_a_certificate_only(tmp_path, flowers):
    X, y = flowers
    write_csv(tmp_path / "a.csv", X, y)
    site = Simulator(sites(tmp_path, "a"), make_graph("complete", 1))
    site.run(until=30)
    program, model = site.programs["a"], tmp_path / "a" / "model.dimargin"
    before = model.read_bytes()
    program.learner.push_sum.mass *= 0  # as for a moment after what another has brought was undone
    program.write_model()
    assert model.read_bytes() == before
    program.learner.push_sum.mass += program.learner.push_sum.contribution
    program.learner.weights += 1
    program.write_model()
    assert model.read_bytes() != before


@pytest.mark.parametrize("file", ["status.json", "model.dimargin"])
def test_a_file_that_cannot_be_written_ends_nothing(tmp_path, flowers, monkeypatch, file):
    """On a full disk, say: that is told once, and tried again every second."""
    write_csv(tmp_path / "a.csv", *flowers)
    full, tries, write = [True], [], learning_site.write_file

    def write_to_a_full_disk(path, content, durable=True, private=False):
        if path.name == file:
            tries.append(path)
            if full[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{path}.{len(tries)}.part")
        write(path, content, durable, private=private)

    monkeypatch.setattr(learning_site, "write_file", write_to_a_full_disk)
    site = Simulator(sites(tmp_path, "a"), make_graph("complete", 1))
    site.run(until=30)
    path, program = tmp_path / "a" / file, site.programs["a"]
    assert len(tries) > 5 and not path.exists() and program.learner.steps > 20
    full[0] = False
    site.run(until=60)
    reason = f"{path} cannot be written: No space left on device"
    told = [(report.what, report.facts) for _, _, report in site.reports if "trouble" in report.what]
    assert told == [("trouble", {"with": file, "reason": reason}), ("trouble over", {"with": file})]
    assert path.exists() and SiteFolder(tmp_path / "a").read_status()["trouble"] == ""


def test_a_disk_that_fails_ends_nothing(tmp_path, flowers, monkeypatch):
    write_csv(tmp_path / "a.csv", *flowers)
    site = Simulator(sites(tmp_path, "a"), make_graph("complete", 1))
    site.run(until=10)
    program, stat = site.programs["a"], os.stat

    def fail(path, *arguments, **options):
        if str(tmp_path) in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return stat(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        site.run(until=20)
        steps = program.learner.steps
        site.run(until=30)
    assert program.learner.steps > steps
    site.run(until=40)
    assert SiteFolder(tmp_path / "a").read_status()["trouble"] == ""


def test_the_status_has_all_trouble_and_refusals(tmp_path, flowers, monkeypatch):
    write_csv(tmp_path / "a.csv", *flowers)
    site = Simulator(sites(tmp_path, "a"), make_graph("complete", 1))
    site.run(until=5)
    program = site.programs["a"]

    class Live:
        def status(self):
            troubles = {"trouble": "no descriptor is free", "withheld": {"b": "it is too long"}}
            return {"traffic": {}, "refused": {"c": "its --allow", "d": "its --allow"}, **troubles}

    program.live = Live()
    monkeypatch.setattr(program, "_trouble", "line 7 is bad")
    monkeypatch.setattr(program, "_unwritten", {"model.dimargin": "the disk is full"})
    program.similar_labels = {"Yes": "'Yes' and 'yes' differ in case"}
    program.neighbourhood.refuse("d", "its schema")
    program.write_status()
    assert SiteFolder(tmp_path / "a").read_status()["refused"] == {"c": "its --allow", "d": "its schema"}
    assert SiteFolder(tmp_path / "a").read_status()["trouble"].split("; ") == [
        "line 7 is bad", "the disk is full", "no descriptor is free", "a message to b is withheld: it is too long",
        "'Yes' and 'yes' differ in case",
    ]  # fmt: skip


def test_rows_appended_to_a_file_are_taken_in(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "ab", X[:60], y[:60])
    simulator = Simulator(sites(tmp_path, "ab"), make_graph("complete", 2))
    simulator.run(until=50)
    write_csv(tmp_path / "a.csv", X[60:], y[60:], mode="a")
    simulator.run(until=60)
    assert simulator.programs["b"].n_rows == 150
    with open(tmp_path / "b.csv", "a") as file:
        file.write("1,2,oops,4,setosa\n")
    simulator.run(until=80)
    status = SiteFolder(tmp_path / "b").read_status()
    assert "oops" in status["trouble"] and str(tmp_path / "b.csv") in status["trouble"]
    told = [report.facts for _, name, report in simulator.reports if report.what == "data refused"]
    assert len(told) == 1 and simulator.programs["b"].learner.steps > 60


def test_a_killed_site_goes_on_with_its_file(tmp_path, flowers):
    X, y = flowers
    deal(tmp_path, "abc", X[:120], y[:120])
    down = Conditions(outages=(Outage("b", 40.2, 60.2),))
    simulator = Simulator(sites(tmp_path, "abc"), make_graph("complete", 3), down)
    simulator.run(until=45)
    steps = simulator.sites["b"].last.learner.steps
    write_csv(tmp_path / "b.csv", X[120:], y[120:], mode="a")
    simulator.run(until=200)
    program = simulator.programs["b"]
    assert program.learner.steps > steps + 100 and program.n_rows == 150
    assert simulator.programs["a"].n_rows == 150


def test_nobody_reads_a_status_of_no_site(tmp_path):
    with pytest.raises(FileNotFoundError, match="no site has run in this folder"):
        SiteFolder(tmp_path).read_status()
    for text in ("{", "[" * 10**5, "[]", "3"):
        (tmp_path / "status.json").write_text(text)
        with pytest.raises(ValueError, match=r"status\.json is damaged"):
            SiteFolder(tmp_path).read_status()


def test_data_that_cannot_be_read_is_said_at_once(tmp_path):
    (tmp_path / "a.csv").write_text("x,class\n1,spam\nnan,ham\n")
    with pytest.raises(DataFileError, match=r"a\.csv"):
        sites(tmp_path, "a")["a"]()


def test_bounds_follow_from_the_schema(tmp_path, flowers):
    X, y = flowers
    write_csv(tmp_path / "a.csv", X, y)
    site = sites(tmp_path, "a")["a"]()
    settings = OPTIONS.settings(site.schema, 150)
    assert settings.norm_bound == pytest.approx(10 * np.sqrt(3) * np.sqrt(5) / 1e-2)  # four features in [0, 1], and one
    assert settings.schema == site.schema.digest and settings.max_messages == site.neighbourhood.max_messages == 200


def test_a_log_that_cannot_be_written_ends_nothing_and_counts_what_is_left_out():
    lines, is_full = [], False

    def write(line):
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        lines.append(json.loads(line))

    log = json_log("north", write)
    for is_full in (False, True, True, True, False, False):  # noqa: B007
        log("refused", {"site": "south"})
    assert [(line["what"], line.get("lines")) for line in lines] == [
        ("refused", None), ("lines left out", 3), ("refused", None), ("refused", None)
    ]  # fmt: skip
    assert lines[1]["about"] == "log"


@pytest.mark.parametrize(("module", "options"), [("gossip", "GossipOptions"), ("core_set", "CoreSetOptions")])
def test_a_site_starts_light(tmp_path, flowers, module, options):
    write_csv(tmp_path / "a.csv", *flowers)
    script = f"""
import sys, zenoh
from pathlib import Path
from dimargin.cli import site, main
from dimargin.io.data.growing_file import GrowingFile
from dimargin.gossip.live import LiveSite
from dimargin.gossip.zenoh_link import ZenohLink
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.gossip.sites.learning_site import LearningSite
from dimargin.gossip.sites.{module}_options import {options}
LearningSite("a", GrowingFile({str(tmp_path / "a.csv")!r}), SiteFolder(Path({str(tmp_path)!r})), {options}(), None)
print(sorted({{"sklearn", "pyarrow", "pandas", "matplotlib", "networkx"}} & set(sys.modules)))
print(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
"""
    environment = {k: v for k, v in os.environ.items() if k != "SCIPY_ARRAY_API"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    modules, *memory = run.stdout.split("\n")
    assert modules == "[]"
    assert int(memory[0]) < 150_000  # kB


def test_the_log_has_lines_of_json_in_ascii_whatever_peers_say():
    lines = []
    json_log("a", lines.append)("refused", {"site": "\x1b[2J\u202e", "reason": "two\nlines"})
    (line,) = lines
    assert line.isascii() and line.count("\n") == 1 and line.endswith("\n") and "\x1b" not in line
    facts = json.loads(line)
    assert (facts["what"], facts["about"], facts["reason"]) == ("refused", "\x1b[2J\u202e", "two\nlines")


def test_a_label_that_is_no_class_is_reported_and_read_again(tmp_path, flowers):
    X, _ = flowers
    path = tmp_path / "north.csv"
    pandas.DataFrame(X, columns=list("abcd")).assign(label=np.arange(len(X)) % 2).to_csv(path, index=False)
    site = sites(tmp_path, ["north"])["north"]()
    list(site.start(0.0, []))
    text = path.read_text()
    for odd, said in (
        ("0.5", "is 0.5; classes must be whole numbers or texts"),
        ("NA", "is 'NA', which is not a label"),
    ):
        path.write_text(f"{text}1,2,3,4,{odd}\n")
        found = [action.facts for action in site._take_rows(1.0) if isinstance(action, Report)]
        assert f"{path}, line 152: the label in column 'label' {said}" in found[0]["reason"]
    path.write_text(f"{text}1,2,3,4,1\n")
    assert [action.facts for action in site._take_rows(2.0) if isinstance(action, Report)] == [{"rows": 1, "all": 151}]
