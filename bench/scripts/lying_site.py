"""Site that lies: `dimargin site` as it is, but that from its 100th step on it tells its sums turned round.

Usage: lying_site.py, then the flags of dimargin site

It says -4 times what gossip has given it (a sign flip), numbers of rows included. That is no vector
which a correct site can send: the neighbours refuse it, and undo what it has contributed.
"""

import sys

import msgspec

from dimargin.cli import main
from dimargin.gossip.program import Send
from dimargin.gossip.programs.exchange import Exchange
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.sites.gossip_options import GossipOptions

HONEST_STEPS, FACTOR = 100, -4.0


class LyingGadget(Gadget):
    """Learner whose messages are false after some steps."""

    def _send_shares(self):
        for action in super()._send_shares():
            if type(action) is Send and type(action.message) is Exchange and self.steps >= HONEST_STEPS:
                mass = action.message.mass
                lie = msgspec.structs.replace(mass, sent=FACTOR * mass.sent)
                yield Send(action.to, msgspec.structs.replace(action.message, mass=lie))
            else:
                yield action


def learner(self, name, rows, schema, n_rows, seed):
    """Return the liar in place of `GossipOptions.learner`."""
    return LyingGadget(rows, self.settings(schema, n_rows), seed)


if __name__ == "__main__":
    GossipOptions.learner = learner
    sys.argv.insert(1, "site")
    main()
