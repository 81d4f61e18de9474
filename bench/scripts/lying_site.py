"""Site that lies: `dimargin site` as it is, but that after some rounds it tells what it knows turned round.

Usage: lying_site.py, then the flags of dimargin site

With --algorithm gadget it says, from its 100th step on, -4 times what gossip has given it (a sign flip),
numbers of rows included. That is no vector which a correct site can send: the neighbours refuse it, and
undo what it has contributed. With consensus ADMM it says -4 times its weights, from its tenth round on,
which a correct site could send. With --liars the others limit what that does.
"""

import sys

import msgspec

from dimargin.cli import main
from dimargin.gossip.program import Send
from dimargin.gossip.programs.exchange import Exchange
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.rounds import consensus_admm
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.sites.gossip_options import GossipOptions

HONEST_STEPS, HONEST_ROUNDS, FACTOR = 100, 10, -4.0


class LyingConsensus(consensus_admm.ConsensusSite):
    """Learner by consensus ADMM whose weights are false after some rounds."""

    def outgoing(self, neighbour):
        """Return a false copy in place of the change."""
        message = super().outgoing(neighbour)
        if self.rounds < HONEST_ROUNDS:
            return message
        return Difference(**self.head, whole=FACTOR * self.public, penalty=message.penalty,
                          largest_pull=message.largest_pull)  # fmt: skip


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
    consensus_admm.ConsensusSite = LyingConsensus
    sys.argv.insert(1, "site")
    main()
