"""Links of one process on Zenoh, and raw sessions that keep to no rules."""

import contextlib
import json

import pytest
from contract_transport import LEASE
from waiting import wait_for

from dimargin.gossip.links import Failed, Received
from dimargin.gossip.zenoh_link import ZenohLink

zenoh = pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

SWARM = "w"
MARK = f"{1:020d}-{1:x}"


def opened(settings):
    """A raw session, which keeps to no rules."""
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "false")
    return zenoh.open(config)


class Swarm:
    """Links of this process, what they have delivered, and raw sessions that keep to no rules."""

    def __init__(self):
        self.links, self.heard, self._open = {}, {}, contextlib.ExitStack()

    def join(self, name, as_key=None, **options):
        link = ZenohLink(name, SWARM, **{"lease": LEASE, **options})
        self.links[as_key or name], self.heard[as_key or name] = link, []
        link.open(self.heard[as_key or name].append)
        self._open.callback(link.close)
        return link

    def received(self, name):
        return [(event.sender, event.data) for event in self.heard[name] if isinstance(event, Received)]

    def failures(self, name):
        return [event.error for event in self.heard[name] if isinstance(event, Failed)]

    def neighbours(self, name):
        return self.links[name].neighbours()

    def met(self, *names):
        wait_for(lambda: all(set(names) - {name} <= set(self.neighbours(name)) for name in names))

    def letter(self, sender, to, data):
        """Send until it has come: a control that the way is open."""
        self.links[sender].send(to, data)
        wait_for(lambda: (sender, data) in self.received(to))

    def intruder(self, connect, listen="tls/127.0.0.1:0", **tls):
        session = opened({
            "connect/endpoints": list(connect),
            "listen/endpoints": [listen],
            "transport/unicast/accept_timeout": 500,
            "transport/link/tls": {"enable_mtls": True, "verify_name_on_connect": False, **tls},
        })  # fmt: skip
        self._open.callback(session.close)
        return session

    def close(self):
        self._open.close()


def publish(session, key, data):
    session.put(key, data, attachment=(1).to_bytes(8, "little"), congestion_control=zenoh.CongestionControl.BLOCK)


def router(port, tls=None):
    """A session in a router's place."""
    settings = {
        "mode": "router",
        "listen/endpoints": [f"{'tls' if tls else 'tcp'}/127.0.0.1:{port}"],
        "transport/link/tx/lease": round(LEASE * 1000),
    }
    return opened(settings | ({"transport/link/tls": tls} if tls else {}))
