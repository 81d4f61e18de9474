"""Networks of sites that are simulated in one process, and machines that are trained on them."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.simulation.attacks import InnerProduct as InnerProduct
    from dimargin.simulation.attacks import LabelFlip as LabelFlip
    from dimargin.simulation.attacks import LittleIsEnough as LittleIsEnough
    from dimargin.simulation.attacks import RandomNoise as RandomNoise
    from dimargin.simulation.attacks import SignFlip as SignFlip
    from dimargin.simulation.conditions import Conditions as Conditions
    from dimargin.simulation.conditions import LinkFaults as LinkFaults
    from dimargin.simulation.conditions import NetworkSplit as NetworkSplit
    from dimargin.simulation.conditions import Outage as Outage
    from dimargin.simulation.liars import lying as lying
    from dimargin.simulation.simulator import Simulator as Simulator
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
