"""GADGET's rivals, which are algorithms of `dimargin.GossipSVMClassifier`, and members of a network who lie.

Each algorithm is a dataclass of its parameters that makes the programs of sites. Those in common
rounds stand on `dimargin.gossip.rounds`.
"""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin_bench.gossip_rivals.attacks import InnerProduct as InnerProduct
    from dimargin_bench.gossip_rivals.attacks import LabelFlip as LabelFlip
    from dimargin_bench.gossip_rivals.attacks import LittleIsEnough as LittleIsEnough
    from dimargin_bench.gossip_rivals.attacks import RandomNoise as RandomNoise
    from dimargin_bench.gossip_rivals.attacks import SignFlip as SignFlip
    from dimargin_bench.gossip_rivals.choco import ChocoSGD as ChocoSGD
    from dimargin_bench.gossip_rivals.choco import decentralised_sgd as decentralised_sgd
    from dimargin_bench.gossip_rivals.federated import FederatedAveraging as FederatedAveraging
    from dimargin_bench.gossip_rivals.gossip_learning import GossipLearning as GossipLearning
    from dimargin_bench.gossip_rivals.liars import lying as lying
    from dimargin_bench.gossip_rivals.mom_dsvm import MoMDSVM as MoMDSVM
    from dimargin_bench.gossip_rivals.reduced_hulls import ReducedHulls as ReducedHulls
    from dimargin_bench.gossip_rivals.set_gossip import SetGossip as SetGossip
    from dimargin_bench.gossip_rivals.uniform_gossip import UniformGadget as UniformGadget
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
