"""Live sites of tests: a link that needs no network, and a site that runs in a thread."""

import threading

from waiting import wait_for

from dimargin.gossip.links import Link
from dimargin.gossip.live import LiveSite


class Wire(Link):
    """A link into the test's hands."""

    def __init__(self, name="a", largest=1_000_000, on_send=lambda to, data: None):
        self.name, self.largest, self.on_send = name, largest, on_send
        self.sent, self.closed = [], False

    def open(self, deliver):
        self.deliver = deliver

    def send(self, to, data):
        self.on_send(to, data)
        self.sent.append((to, data))

    def neighbours(self):
        return ("b",)

    def close(self):
        self.closed = True


class Running:
    """A site in a thread of its own, which ends with the test."""

    def __init__(self, program, wire=None, **options):
        self.program, self.wire, self.said, self.stop = program, wire or Wire(), [], threading.Event()
        self.site = LiveSite(program, self.wire, log=lambda what, facts: self.said.append((what, facts)), **options)
        self.result = None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.result = self.site.run(self.stop, 60.0)
        except Exception as error:
            self.result = error

    def __enter__(self):
        self.thread.start()
        wait_for(lambda: self.result is not None or any(what == "started" for what, _ in self.said))
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def facts(self, what):
        return [facts for said, facts in self.said if said == what]
