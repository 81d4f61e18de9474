"""GADGET's rivals: algorithms of `dimargin.GossipSVMClassifier`, their operators of compression, and rules of merging.

Each algorithm is a dataclass of its parameters that makes the programs of sites. Those in common rounds stand on
`synchronous`, which lets them run over networks that lose messages.
"""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.network.rivals.choco import ChocoSGD as ChocoSGD
    from dimargin.network.rivals.choco import decentralised_sgd as decentralised_sgd
    from dimargin.network.rivals.compression import Identity as Identity
    from dimargin.network.rivals.compression import Logarithmic as Logarithmic
    from dimargin.network.rivals.compression import Quantised as Quantised
    from dimargin.network.rivals.compression import RandomK as RandomK
    from dimargin.network.rivals.compression import TopK as TopK
    from dimargin.network.rivals.consensus_admm import ConsensusADMM as ConsensusADMM
    from dimargin.network.rivals.gossip_learning import GossipLearning as GossipLearning
    from dimargin.network.rivals.merging import ClippedMean as ClippedMean
    from dimargin.network.rivals.merging import Mean as Mean
    from dimargin.network.rivals.merging import NearestMixing as NearestMixing
    from dimargin.network.rivals.merging import TrimmedMean as TrimmedMean
    from dimargin.network.rivals.mom_dsvm import MoMDSVM as MoMDSVM
    from dimargin.network.rivals.robust import RobustGossip as RobustGossip
    from dimargin.network.rivals.set_gossip import SetGossip as SetGossip
    from dimargin.network.rivals.uniform_gossip import UniformGadget as UniformGadget
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
