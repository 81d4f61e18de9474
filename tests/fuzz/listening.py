"""Live sites that hear messages without a network, their clock and events in the caller's hands."""

import math

from dimargin.gossip.links import Link, Received
from dimargin.gossip.live import LiveSite
from dimargin.gossip.messages import UnsoundError, decoder, encode


def heard(program, now, sender, message):
    """The actions of a program that is sent a message, or is told that its sender said what cannot be."""
    try:
        message = decoder(program.messages)(encode(message))
    except UnsoundError as error:
        return list(program.refuse(now, sender, str(error)))
    return list(program.receive(now, sender, message))


class Nowhere(Link):
    """A link that keeps what was sent."""

    def __init__(self, name, largest=2**26):
        self.name, self.largest, self.sent = name, largest, []

    def open(self, deliver):
        pass

    def send(self, to, data):
        self.sent.append((to, data))

    def neighbours(self):
        return ()

    def close(self):
        pass


class Listening:
    """A live site whose clock and events are in the caller's hands."""

    def __init__(self, name, program, neighbours=("eve",), **options):
        self.name, self.now, self.said, self.program, self.link = name, 0.0, [], program, Nowhere(name)
        self.site = LiveSite(
            program,
            self.link,
            clock=lambda: self.now,
            log=lambda what, facts: self.said.append((what, facts)),
            **options,
        )
        self.site._saved.restore()
        self.site._carry_out(program.start(0.0, neighbours))

    def hear(self, sender, message):
        """A message, or its bytes; what was logged meanwhile."""
        before = len(self.said)
        self.site._receive(Received(sender, message if isinstance(message, bytes) else encode(message)))
        return self.said[before:]

    def wake(self, until):
        """Wake the program whenever it wants to be."""
        while (due := self.site._timers.next()) <= until:
            self.now = max(self.now, due)
            self.site._carry_out(self.program.wake(self.now, self.site._timers.pop(self.now)))
        self.now = max(self.now, until)

    def taken(self, to=None):
        """What was sent since this was called last, to some site or all."""
        sent, self.link.sent = self.link.sent, []
        return [(name, data) for name, data in sent if to in (None, name)]


def together(sites, seconds, step):
    """Let sites talk to one another for so long; what they say to others is forgotten."""
    by_name = {site.name: site for site in sites}
    for _ in range(math.ceil(seconds / step)):
        for site in sites:
            site.wake(site.now + step)
        for site in sites:
            for to, data in site.taken():
                if to in by_name:
                    by_name[to].hear(site.name, data)
