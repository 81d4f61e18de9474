"""``dimargin simulate``."""

import inspect
import io
import json
import os
import signal
import sys

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MinMaxScaler
from text_files import words_of, write_moons

import dimargin as dm
from dimargin.cli.network_conditions import outages_of
from dimargin.cli.simulate import RunDisplay
from dimargin.gossip.rounds import ConsensusADMM
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults
from dimargin.io.data import read_data

PARAMETERS = {
    "algorithm": ("gadget", "gadget"),
    "n_sites": ("4", 4),
    "topology": ("ring", "ring"),
    "alpha": ("0.05", 0.05),
    "loss_function": ("odm", "odm"),
    "theta": ("0.3", 0.3),
    "upsilon": ("0.7", 0.7),
    "n_quiet": ("2", 2),
    "gradient": ("tracked", "tracked"),
    "batch_size": ("5", 5),
    "gossip_rounds": ("0.5", 0.5),
    "step_size": ("0.25", 0.25),
    "projection": (None, True),
    "compression": ("quantised", "quantised"),
    "average": (None, True),
    "shards": ("sorted_unequal", "sorted_unequal"),
    "fit_intercept": (None, True),
    "stop": ("quiet", "quiet"),
    "tol": ("0.01", 0.01),
    "max_iter": ("20", 20),
    "max_time": ("99.5", 99.5),
    "random_state": ("5", 5),
}
SMALL = ["--n-sites", 4, "--topology", "ring", "--alpha", 0.02, "--max-iter", 30, "--random-state", 0]


@pytest.fixture
def csv(tmp_path):
    return write_moons(tmp_path / "train.csv", 200)


@pytest.fixture
def gossip(dimargin):
    """What a run says as JSON, and on standard error."""

    def run(*arguments):
        status, out, err = dimargin("simulate", "gossip", *arguments, "--json")
        assert status == 0, err
        return json.loads(out), err

    return run


@pytest.fixture
def fitted_with(monkeypatch):
    """Conditions of the fits."""
    seen, fit = [], dm.GossipSVMClassifier.fit

    def fit_noted(self, X, y):
        seen.append(self.conditions)
        return fit(self, X, y)

    monkeypatch.setattr(dm.GossipSVMClassifier, "fit", fit_noted)
    return seen


def test_from_a_file_to_a_table_a_picture_and_a_model(dimargin, gossip, csv, tmp_path):
    model, picture, test = tmp_path / "m", tmp_path / "profile.png", write_moons(tmp_path / "test.csv", 100, 1)
    flags = [csv, *SMALL, "--shards", "sorted", "--fit-intercept", "--validate", test, "--model", model]
    status, out, err = dimargin("simulate", "gossip", *flags, "--plot", picture)
    assert status == 0 and picture.read_bytes().startswith(b"\x89PNG")
    assert "train.csv: 200 rows, 2 features, on 4 sites" in err and "profile is drawn in" in err
    assert "warning: training stopped before" in err and "--max-iter after 30 rounds" in err
    facts, _ = gossip(*flags)
    # a long path goes on in further lines
    table = dict(line.split("  ", 1) for line in out.splitlines() if not line.startswith(" "))
    table = {name.strip(): value.strip() for name, value in table.items()}
    assert set(table) == {name.replace("_", " ") for name in facts}
    assert table["rows per site"] == "least 50, most 50" and table["certificate"].startswith("global: the gap is for")
    assert table["bytes"] == f"{facts['bytes']} ({facts['bytes'] / 1000:.1f} kB)"
    assert (facts["topology"], facts["sites"], facts["rounds"], facts["classes"]) == ("ring", 4, 30, ["ham", "spam"])
    assert facts["rows_per_site"] == {"least": 50, "most": 50} and facts["status"] == "max_iter"
    assert facts["seconds"] > 0
    evaluated = json.loads(dimargin("evaluate", model, test, "--json")[1])
    assert evaluated["accuracy"] == facts["validation_accuracy"]["consensus"]
    scaler, machine = dm.load(model)
    data = read_data(test)
    X = scaler.transform(data.X)
    values = X @ machine.site_coef_.T + machine.site_intercept_
    each = ((values > 0) == (data.y == "spam")[:, None]).mean(axis=0)
    assert [facts["validation_accuracy"][name] for name in ("min", "mean", "max")] == [
        each.min(), each.mean(), each.max()
    ]  # fmt: skip


def test_consensus_admm_and_its_parameters(dimargin, gossip, csv, tmp_path):
    small = [csv, "--n-sites", 4, "--topology", "ring", "--alpha", 0.02, "--random-state", 0, "--tol", 1e-3]
    facts, _ = gossip(*small, "--algorithm", "admm", "--shards", "sorted")
    assert facts["status"] == "converged" and facts["relative_duality_gap"] <= 1e-3
    model = tmp_path / "model"
    own = ["--rho", 0.5, "--over-relaxation", 1.2, "--levels", 0]
    other, _ = gossip(*small, "--algorithm", "admm", "--shards", "sorted", *own, "--model", model)
    assert other["objective_of_consensus"] == pytest.approx(facts["objective_of_consensus"], rel=1e-3)
    assert dm.load(model)[-1].algorithm == ConsensusADMM(0.5, 1.2)
    status, _, err = dimargin("simulate", "gossip", csv, "--rho", 0.5)
    assert status == 2 and "--rho is not a parameter of --algorithm gadget" in words_of(err)
    status, _, err = dimargin("simulate", "gossip", csv, "--algorithm", "admm", "--rho", -1)
    assert status == 2 and "rho must be a number above 0, got -1.0" in words_of(err)


def test_the_numbers_are_those_of_python(gossip, csv):
    facts, _ = gossip(csv, *SMALL, "--shards", "sorted")
    data = read_data(csv)
    X, signs = MinMaxScaler().fit_transform(data.X), np.where(data.y == "spam", 1, -1)
    machine = dm.GossipSVMClassifier(
        n_sites=4, topology="ring", alpha=0.02, max_iter=30, shards="sorted", random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        machine.fit(X, data.y)

    def objective(w):
        return 0.01 * w @ w + np.maximum(0, 1 - signs * (X @ w)).mean()

    assert facts["objective_of_consensus"] == pytest.approx(objective(machine.site_coef_.mean(axis=0)))
    assert facts["objective_of_worst_site"] == pytest.approx(max(map(objective, machine.site_coef_)))
    assert facts["objective_of_averages"] == pytest.approx(objective(machine.site_average_coef_.mean(axis=0)))
    assert facts["relative_duality_gap"] == machine.duality_gap_
    each = [np.mean(np.sign(X @ w) == signs) for w in machine.site_coef_]
    expected = {"min": min(each), "mean": np.mean(each), "max": max(each), "consensus": machine.score(X, data.y)}
    assert facts["training_accuracy"] == pytest.approx(expected)
    last = machine.history_[-1]
    assert [facts[key] for key in ("messages", "bytes", "consensus_spread")] == [
        last[key] for key in ("messages", "bytes", "consensus_spread")
    ]


def test_every_parameter_is_a_flag(dimargin, csv, tmp_path):
    own = {"verbose", "conditions", "share_rows"}
    assert set(PARAMETERS) == set(inspect.signature(dm.GossipSVMClassifier).parameters) - own
    given = {f"--{name.replace('_', '-')}": text for name, (text, _) in PARAMETERS.items()}
    flags = [part for pair in given.items() for part in pair if part is not None]
    flags += ["--scale", "none", "--model", tmp_path / "m", "--loss", 0.1, "--quiet"]
    status, out, err = dimargin("simulate", "gossip", csv, *flags)
    assert (status, out, err) == (0, "", "")
    stored = dm.load(tmp_path / "m").get_params()
    assert {name: stored[name] for name in PARAMETERS} == {name: value for name, (_, value) in PARAMETERS.items()}
    assert type(stored["gossip_rounds"]) is float and stored["conditions"] is None
    # whole rounds, and as the estimator spells them
    flags = ["--gossip_rounds", 3, "--step_size", "pegasos", "--max_iter", 5, "--n_sites", 2]
    assert dimargin("simulate", "gossip", csv, *flags, "-m", tmp_path / "m", "--quiet")[0] == 0
    stored = dm.load(tmp_path / "m")[-1].get_params()
    assert (stored["gossip_rounds"], stored["step_size"]) == (3, "pegasos") and type(stored["gossip_rounds"]) is int


def test_conditions_are_flags(gossip, csv, fitted_with):
    plain, _ = gossip(csv, *SMALL)
    lossy, _ = gossip(csv, *SMALL, "--loss", 0.2, "--duplication", 0.1)
    gossip(csv, *SMALL, "--delay", 0.5, 3)
    gossip(csv, *SMALL, "--asynchronous", "--loss", 0.3)
    gossip(csv, *SMALL, "--asynchronous", "--delay", 1, 2)
    assert fitted_with == [
        Conditions(), Conditions(LinkFaults(loss=0.2, duplication=0.1)), Conditions(LinkFaults(delay=(0.5, 3.0))),
        Conditions.asynchronous(loss=0.3), Conditions(LinkFaults(delay=(1.0, 2.0)), jitter=0.5),
    ]  # fmt: skip
    assert lossy["objective_of_consensus"] != plain["objective_of_consensus"]


def test_sites_crash_and_return(gossip, csv, fitted_with):
    plain, _ = gossip(csv, *SMALL)
    crashed, err = gossip(csv, *SMALL, "--crash", 2)
    outages = fitted_with[-1].outages
    assert [(outage.at, outage.until) for outage in outages] == [(6.0, 12.0), (18.0, 24.0)]
    assert len({outage.site for outage in outages}) == 2 and not any(outage.loses_memory for outage in outages)
    assert crashed["messages"] == plain["messages"] - 2 * 7 * 2 and "crashes did not happen" not in err
    gossip(csv, *SMALL, "--crash", 0.5)
    assert fitted_with[-1].outages == outages
    _, err = gossip(csv, *SMALL, "--crash", 2, "--tol", 0.9, "--n-quiet", 1, "--max-iter", 500)
    assert "warning: 2 of 2 crashes did not happen because the run ended in round" in err


def test_crashes_are_spread_and_drawn_by_the_seed():
    outages = outages_of(5, 10, 1000, 0)
    assert [(outage.at, outage.until) for outage in outages] == [(80 + 160 * k, 280 + 160 * k) for k in range(5)]
    sites = [tuple(outage.site for outage in outages_of(5, 10, 1000, seed)) for seed in (0, 0, 1)]
    assert sites[0] == sites[1] != sites[2] and len(set(sites[0])) == 5
    assert [len(outages_of(n, 10, 100, 0)) for n in (1, 0.01, 0.25, 10)] == [1, 1, 2, 10]
    assert outages_of(None, 10, 100, 0) == ()


def test_more_than_two_classes_of_sparse_rows(gossip, tmp_path):
    X, y = load_iris(return_X_y=True)
    lines = [f"{k} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for k, x in zip(y, X.tolist(), strict=True)]
    (tmp_path / "iris").write_text("\n".join(lines) + "\n")
    facts, _ = gossip(tmp_path / "iris", *SMALL, "--scale", "standard", "--model", tmp_path / "m")
    assert facts["classes"] == [0, 1, 2] and len(facts["objective_of_worst_site"]) == 3
    assert type(dm.load(tmp_path / "m")[0]).__name__ == "StandardScaler"
    assert 0.5 < facts["training_accuracy"]["min"] <= facts["training_accuracy"]["max"] <= 1


def test_the_label_is_found_by_name_in_other_files(gossip, csv, tmp_path):
    """Given by place once; another file has its columns in another order, and one none at all."""
    csv.write_text(csv.read_text().replace("class", "kind").replace("ham", "0").replace("spam", "1"))
    lines = [line.split(",") for line in csv.read_text().splitlines()]
    (tmp_path / "turned.csv").write_text("".join(f"{c},{b},{a}\n" for a, b, c in lines))
    (tmp_path / "rows").write_text("".join(f"{c} 1:{a} 2:{b}\n" for a, b, c in lines[1:]))
    trained, _ = gossip(csv, *SMALL, "--label", 2)
    for other in ("turned.csv", "rows"):
        facts, _ = gossip(csv, *SMALL, "--label", 2, "--validate", tmp_path / other)
        assert facts["validation_accuracy"] == trained["training_accuracy"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--topology", "circle"], "topology must be one of complete, ring"),
        (["--shards", "even"], "shards must be 'random', 'unequal'"),
        (["--n-sites", "0"], "n_sites must be a whole number"),
        (["--loss", "2"], "loss must be a probability in [0, 1], got 2.0"),
        (["--duplication", "-1"], "duplication must be a probability in [0, 1], got -1.0"),
        (["--delay", "2", "1"], "delay must be two finite numbers with 0 <= low <= high, got (2.0, 1.0)"),
        (["--crash", "5", "--n-sites", "4"], "crash must be a share of the sites in (0, 1) or a whole number in [1,"),
        (["--crash", "1.5"], "got 1.5"),
        (["--gossip-rounds", "many"], "--gossip-rounds must be a number, got 'many'"),
        (["--step-size", "small"], "step_size must be 'auto', 'pegasos' or a number above 0, got 'small'"),
        (["--random-state", "x"], "--random-state must be a whole number"),
        (["--model", "nowhere/m"], "the folder nowhere does not exist"),
        (["--plot", "nowhere/m.png"], "the folder nowhere does not exist"),
        (["--conditions", "x"], "No such option"),
        (["--lam", "2"], "No such option"),
    ],
)  # fmt: skip
def test_bad_usage_is_status_2_and_says_why(dimargin, csv, flags, text):
    status, out, err = dimargin("simulate", "gossip", csv, *flags)
    assert status == 2 and not out and text.replace(" ", "") in words_of(err).replace(" ", "")


PLOT = 'dimargin: --plot needs the extra "report": pip install "dimargin[report]"\n'
PEERS = 'dimargin: dimargin simulate gossip needs the extra "peers": pip install "dimargin[peers]"\n'


def test_what_is_wrong_with_data_or_installation_is_named(dimargin, csv, tmp_path, monkeypatch):
    other = write_moons(tmp_path / "other.csv", 20, names=("ham", "eggs"))
    status, _, err = dimargin("simulate", "gossip", csv, "--validate", other)
    assert status == 1 and "other.csv: labels must be among the classes ['ham', 'spam'], got ['eggs'] too" in err
    one = write_moons(tmp_path / "one.csv", 20, names=("ham", "ham"))
    assert "needs at least two classes; y has one class only" in dimargin("simulate", "gossip", one)[2]
    model = tmp_path / "m"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        status, _, err = dimargin("simulate", "gossip", csv, "--plot", tmp_path / "p.png", "--model", model)
        assert status == 2 and err == PLOT and not model.exists()
    monkeypatch.setitem(sys.modules, "networkx", None)
    status, _, err = dimargin("simulate", "gossip", csv)
    assert status == 2 and err == PEERS


def test_help(dimargin):
    status, out, _ = dimargin("simulate", "gossip", "--help-all")
    text = words_of(out)
    assert status == 0 and "Conditions of the network" in text
    assert "both (default: random)." in text and "array-like" not in text and "n_sites nodes" not in text
    assert "gossip" in dimargin("simulate", "--help")[1]


def test_a_terminal_shows_rounds():
    shown = io.StringIO()
    display = RunDisplay(Console(file=shown, force_terminal=True, width=120), 500, quiet=False)
    entry = {"round": 37, "partitions": 4, "worst_objective": np.array([0.25, 0.5]), "relative_gap": 0.0126}
    with display.running():
        display.level_begin(0, None)
        assert display.check(entry) is False
        display._progress.refresh()
        display.level_end(entry | {"round": 41}, lambda: None)
    assert "round 37 of 500" in shown.getvalue() and "worst objective 0.75, gap 1.3e-02" in shown.getvalue()
    assert "4 sites, round 41: worst objective 0.75" in shown.getvalue()
    assert display._progress.tasks[0].completed == 37


def test_ctrl_c_gives_what_the_sites_know(dimargin, tmp_path, monkeypatch):
    data, model, before = write_moons(tmp_path / "train.csv", 2000), tmp_path / "m", signal.getsignal(signal.SIGINT)
    check = RunDisplay.check

    def press(self, entry):
        if entry["round"] > 1 and not self.interrupted.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        return check(self, entry)

    monkeypatch.setattr(RunDisplay, "check", press)
    flags = ["--max-iter", 1000000, "--stop", "quiet", "--tol", 1e-12, "--max-time", 60, "--model", model, "--json"]
    try:
        status, out, err = dimargin("simulate", "gossip", data, *flags)
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 1 and "Interrupted: these are the results so far" in err, err
    facts = json.loads(out)
    assert facts["status"] == "interrupted" and dm.load(model)[-1].n_iter_ == facts["rounds"] > 1
