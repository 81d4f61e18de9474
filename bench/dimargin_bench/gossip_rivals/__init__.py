"""GADGET's rivals: algorithms of `dimargin.GossipSVMClassifier`, their operators of compression, and rules of merging.

Each algorithm is a dataclass of its parameters that makes the programs of sites. Those in common rounds stand on
`synchronous`, which lets them run over networks that lose messages.
"""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin_bench.gossip_rivals.choco import ChocoSGD as ChocoSGD
    from dimargin_bench.gossip_rivals.choco import decentralised_sgd as decentralised_sgd
    from dimargin_bench.gossip_rivals.gossip_learning import GossipLearning as GossipLearning
    from dimargin_bench.gossip_rivals.mom_dsvm import MoMDSVM as MoMDSVM
    from dimargin_bench.gossip_rivals.set_gossip import SetGossip as SetGossip
    from dimargin_bench.gossip_rivals.uniform_gossip import UniformGadget as UniformGadget
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
