"""Networks of sites that are simulated in one process, and machines that are trained on them."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.gossip.simulation.conditions import Conditions as Conditions
    from dimargin.gossip.simulation.conditions import LinkFaults as LinkFaults
    from dimargin.gossip.simulation.conditions import NetworkSplit as NetworkSplit
    from dimargin.gossip.simulation.conditions import Outage as Outage
    from dimargin.gossip.simulation.simulator import Simulator as Simulator
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
