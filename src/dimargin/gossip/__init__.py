"""Decentralised learning by sites that exchange messages: messages, programs and a real transport."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.gossip.messages import Message as Message
    from dimargin.gossip.program import Report as Report
    from dimargin.gossip.program import Send as Send
    from dimargin.gossip.program import SiteProgram as SiteProgram
    from dimargin.gossip.program import Stop as Stop
    from dimargin.gossip.program import Wake as Wake
    from dimargin.gossip.push_sum import PushSum as PushSum
    from dimargin.gossip.topology import make_graph as make_graph
    from dimargin.gossip.topology import metropolis_weights as metropolis_weights
    from dimargin.gossip.topology import mixing_rounds as mixing_rounds
    from dimargin.gossip.topology import uniform_weights as uniform_weights
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
