"""Sites in a Flower app: in Flower's simulation engine, their weights are those of our simulator, bit for bit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from linear_sites import objective, optimum, overlapping, sites

pytest.importorskip("flwr", reason="needs the packages of dimargin[flower]")
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from dimargin.gossip.flower import GossipStrategy, client_app
from dimargin.gossip.messages import unpack
from dimargin.gossip.rounds import ConsensusADMM, Logarithmic
from dimargin.gossip.simulation.observed_run import site_names

ROWS, N = overlapping(), 4
NAMES = site_names(N)


def simulated():
    return sites(ConsensusADMM(rho=0.05, compression=Logarithmic()), *ROWS, n_sites=N, shards="sorted")


def site(context):
    name = NAMES[context.node_config["partition-id"]]
    return name, simulated()._program(NAMES.index(name), name)


def strategy():
    return GossipStrategy(nx.relabel_nodes(simulated().graph, dict(enumerate(NAMES))))


class Clients:
    """Grid that calls its clients directly; `answers` changes the answer of a node, or raises."""

    def __init__(self, app=None, answers=lambda node, answer: answer):
        self.app, self.answers, self.ids = app or client_app(site), answers, [100 + k for k in range(N)]
        self.contexts = {100 + k: Context(1, 100 + k, {"partition-id": k}, RecordDict(), {}) for k in range(N)}

    def get_node_ids(self):
        return self.ids

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages]

    def answer(self, message):
        node = message.metadata.dst_node_id
        try:
            return self.answers(node, self.app(message, self.contexts[node]))
        except InterruptedError:
            return Message(Error(code=0), reply_to=message)


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Flower's engines set these numbers of the server, which messages contain."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def run_on(grid, n_rounds, given=None):
    given = given or strategy()
    found = given.start(grid, initial_arrays=ArrayRecord(), num_rounds=n_rounds)
    return given, found.train_metrics_clientapp


def test_their_numbers_are_those_of_our_simulator():
    grid, run = Clients(), simulated().run(30)
    given, metrics = run_on(grid, 31)
    models = given.models(grid)
    assert np.array_equal([models[name] for name in NAMES], run.weights())
    assert sum(record["bytes"] for record in metrics.values()) == run.simulator.counts["bytes"]


def test_a_client_that_fails_is_left_out_and_returns():
    down = []

    def answers(node, answer):
        if node in down:
            raise InterruptedError
        return answer

    grid = Clients(answers=answers)
    given, _ = run_on(grid, 10)
    down.append(102)
    _, metrics = run_on(grid, 10, given)
    assert metrics[10]["sites"] == 3
    rounds = [unpack(grid.contexts[node].state["dimargin"]["state"])["program"]["rounds"] for node in grid.ids]
    assert min(rounds[k] for k in (0, 1, 3)) >= 17 > rounds[2]
    down.clear()
    _, metrics = run_on(grid, 150, given)
    assert metrics[150]["sites"] == 4
    worst = max(objective(*ROWS, weights[0]) for weights in given.models(grid).values())
    assert worst < optimum(*ROWS) * 1.01


def test_answers_of_no_site_are_ignored():
    wrong = ConfigRecord({"receivers": ["site1", "site2"], "messages": [1, 2]})
    records = iter([None, {}, {"dimargin": wrong}])  # The first answer is its name.

    def answers(node, answer):
        if node == 100 and (record := next(records, None)) is not None:
            answer.content.clear()
            answer.content.update(record)
        return answer

    _, metrics = run_on(Clients(answers=answers), 2)
    assert metrics[1]["sites"] == 3 and metrics[1]["messages"] == 6
    assert metrics[2]["sites"] == 4 and metrics[2]["messages"] < 8


def test_clients_whose_names_make_no_sense_are_asked_again(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    weights, name = ArrayRecord([np.zeros((1, 7))]), ConfigRecord({"name": NAMES[0]})
    records = [
        {}, {"dimargin": ConfigRecord({})}, {"dimargin": name}, {"dimargin": weights, "weights": weights},
        {"dimargin": name, "weights": ArrayRecord()},
    ]  # fmt: skip

    def answers(node, answer):
        if node == 100 and records:
            answer.content.clear()
            answer.content.update(records.pop())
        return answer

    _, metrics = run_on(Clients(answers=answers), 1)
    assert metrics[1]["sites"] == 4 and not records


def test_a_site_that_returns_as_another_client_goes_on():
    grid = Clients()
    given, _ = run_on(grid, 10)
    grid.ids = [100, 101, 103, 109, 110]
    grid.contexts[109] = Context(2, 109, {"partition-id": 2}, RecordDict(), {})
    grid.contexts[110] = Context(2, 110, {"partition-id": 1}, RecordDict(), {})  # Its name is taken.
    _, metrics = run_on(grid, 150, given)
    assert metrics[150]["sites"] == 4
    worst = max(objective(*ROWS, weights[0]) for weights in given.models(grid).values())
    assert worst < optimum(*ROWS) * 1.01 and not grid.contexts[110].state


def test_the_page_shows_an_app_that_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "flower.md").read_text(encoding="utf-8")
    shown = {}
    exec(re.search(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1], shown)
    shown["server"](Clients(shown["client"]), None)
    found = np.load("models.npz")
    X, y = shown["load_breast_cancer"](return_X_y=True)
    X, signs = shown["scale"](X), np.where(y == 1, 1.0, -1.0)
    assert sorted(found) == ["east", "north", "south", "west"]
    assert max(objective(X, signs, weights[0]) for weights in found.values()) < optimum(X, signs) * 1.01


SCRIPT = """
import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from test_flower import N, NAMES, client_app, run_on, simulated, site

server, found = ServerApp(), {}

@server.main()
def main(grid, context):
    given, found["metrics"] = run_on(grid, 13)
    found["models"] = given.models(grid)

run_simulation(server, client_app(site), N, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
run = simulated().run(12)
assert np.array_equal([found["models"][name] for name in NAMES], run.weights()), "other numbers"
assert sum(record["bytes"] for record in found["metrics"].values()) == run.simulator.counts["bytes"], "other bytes"
print("equal")
"""


@pytest.mark.slow
def test_flowers_simulation_engine_has_the_same_numbers(tmp_path):
    pytest.importorskip("ray", reason="Flower's simulation needs flwr[simulation]")
    environment = {
        **os.environ,
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_HOME": str(tmp_path),
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    found = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert found.stdout.endswith("equal\n"), found.stderr[-3000:]
