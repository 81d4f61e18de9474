"""Networks of sites that are simulated in one process, and machines that are trained on them."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.simulation.conditions import Conditions as Conditions
    from dimargin.simulation.conditions import LinkFaults as LinkFaults
    from dimargin.simulation.conditions import NetworkSplit as NetworkSplit
    from dimargin.simulation.conditions import Outage as Outage
    from dimargin.simulation.simulator import Simulator as Simulator
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
