"""Sites as clients of a Flower app, whose server passes their messages on from neighbour to neighbour.

Flower (flower.ai) connects all clients to a server. Here the server averages nothing and holds no
model: in every round, it brings each site the messages that its neighbours in a graph have sent in
the last one. The programs are those of ``dimargin site`` and of the simulator (rounds/resumed.py),
stored in the state that Flower keeps for a client. Messages and states are bytes that
`dimargin.gossip.messages` encodes and checks; nothing is unpickled.

It needs the packages of ``dimargin[flower]``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dimargin.gossip.messages import unpack
from dimargin.gossip.rounds.linear_rounds import LinearRounds
from dimargin.gossip.rounds.resumed import resume_round
from dimargin.system.arrays import Floats
from dimargin.system.extras import naming_extra

with naming_extra(__name__):
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Strategy

_RECORD_NAME = "dimargin"  # Name of our records in messages and in the state of a client.


def client_app(site: Callable[[Context], tuple[str, LinearRounds]]) -> ClientApp:
    """Return the Flower client of a site.

    Parameters
    ----------
    site : callable
        Function of Flower's context that returns the name of the site, and a new program of an
        algorithm of ``dimargin.gossip.rounds`` with its rows. It is called in every round, and must
        return the same name and the same parameters each time.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        given, (_, program) = message.content[_RECORD_NAME], site(context)
        inbox = zip(given["senders"], given["messages"], strict=True)
        state, sent = resume_round(program, _state(context), float(given["round"]), given["neighbours"], inbox)
        context.state[_RECORD_NAME] = ConfigRecord({"state": state})
        answer = {"receivers": [name for name, _ in sent], "messages": [data for _, data in sent]}
        return Message(RecordDict({_RECORD_NAME: ConfigRecord(answer)}), reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        name, program = site(context)
        if state := _state(context):
            program.restore(unpack(state)["program"])
        records = {_RECORD_NAME: ConfigRecord({"name": name}), "weights": ArrayRecord([program.weights])}
        return Message(RecordDict(records), reply_to=message)

    return app


def _state(context: Context) -> bytes:
    found: Any = context.state.get(_RECORD_NAME, {"state": b""})
    return bytes(found["state"])


class GossipStrategy(Strategy):
    """Flower strategy that passes messages on between the neighbours of a graph, and aggregates nothing.

    `start` takes the same arguments as with FedAvg, but uses no arrays; `models` returns the weights
    of the sites. A site that does not answer in a round is left out by its neighbours, until it
    answers again.

    Parameters
    ----------
    graph : networkx graph
        Undirected graph whose nodes are the names of the sites. The first round begins when all of
        them are connected.

    Notes
    -----
    The number of rounds is the sites' clock. In the first one they receive nothing, so
    that n rounds of a simulation are ``n + 1`` here.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._rounds = 0  # Rounds that have begun.
        self._nodes: dict[str, int] = {}  # Flower's number of each site's client.
        self._asked: set[int] = set()  # Clients that have told their name.
        self._present = set(graph)  # Sites that have answered in the last round.
        self._post: dict[str, list[tuple[str, bytes]]] = {}  # Senders and messages for each site.

    def summary(self) -> None:
        """Log nothing, because the graph is the only setting."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return, for every site, the messages of its neighbours."""
        self._meet(grid)
        while not self._rounds and len(self._nodes) < len(self.graph):
            time.sleep(1.0)
            self._meet(grid)
        now, self._rounds = self._rounds, self._rounds + 1  # Unlike `server_round`, it never starts again.
        post, self._post = self._post, {}
        for name, node in sorted(self._nodes.items()):
            inbox, near = sorted(post.get(name, [])), sorted(self._present.intersection(self.graph.neighbors(name)))
            record = {"round": now, "neighbours": near}
            record |= {"senders": [sender for sender, _ in inbox], "messages": [data for _, data in inbox]}
            yield Message(RecordDict({_RECORD_NAME: ConfigRecord(record)}), node, MessageType.TRAIN)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Keep the messages of the sites for the next round; return their number and size, and no arrays."""
        names, self._present, n_messages, n_bytes = {node: name for name, node in self._nodes.items()}, set(), 0, 0
        for reply in replies:
            sender = names.get(reply.metadata.src_node_id)
            if sender is None or reply.has_error() or _RECORD_NAME not in reply.content:
                continue
            self._present.add(sender)
            answer = reply.content[_RECORD_NAME]
            for receiver, data in zip(answer.get("receivers", []), answer.get("messages", []), strict=False):
                if self.graph.has_edge(sender, receiver) and isinstance(data, bytes):
                    self._post.setdefault(receiver, []).append((sender, data))
                    n_messages, n_bytes = n_messages + 1, n_bytes + len(data)
        return None, MetricRecord({"sites": len(self._present), "messages": n_messages, "bytes": n_bytes})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return no messages."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return no metrics."""
        return None

    def models(self, grid: Grid) -> dict[str, Floats]:
        """Return the weights, of shape (n_outputs, n_features), of every site that answers."""
        found = self._query(grid, self._nodes.values())
        return {name: np.asarray(weights) for name, (_, weights) in found.items()}

    def _meet(self, grid: Grid) -> None:
        """Learn the names of clients that are new; a site may return as another client."""
        connected = set(grid.get_node_ids())
        for name, (node, _) in self._query(grid, connected - self._asked).items():
            if name in self.graph and self._nodes.get(name) not in connected:
                self._nodes[name] = node
            self._asked.add(node)

    def _query(self, grid: Grid, nodes: Iterable[int]) -> dict[str, tuple[int, Floats]]:
        """Return the clients that answer, with the weights, by the names of their sites; malformed answers are none."""
        asked = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        found = {}
        for reply in grid.send_and_receive(asked) if asked else []:
            try:
                name, (weights,) = (
                    str(reply.content[_RECORD_NAME]["name"]),
                    reply.content["weights"].to_numpy_ndarrays(),
                )
            except Exception:  # Flower raises several, the first of them for a client that has failed.
                continue
            found[name] = reply.metadata.src_node_id, weights
        return found
