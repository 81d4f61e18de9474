"""Sites that learn together over a network without a centre: messages, programs, a real transport."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.network.messages import Message as Message
    from dimargin.network.program import Report as Report
    from dimargin.network.program import Send as Send
    from dimargin.network.program import SiteProgram as SiteProgram
    from dimargin.network.program import Stop as Stop
    from dimargin.network.program import Wake as Wake
    from dimargin.network.push_sum import PushSum as PushSum
    from dimargin.network.topology import make_graph as make_graph
    from dimargin.network.topology import metropolis_weights as metropolis_weights
    from dimargin.network.topology import mixing_rounds as mixing_rounds
    from dimargin.network.topology import uniform_weights as uniform_weights
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
