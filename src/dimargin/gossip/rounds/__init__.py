"""Algorithms of `dimargin.GossipSVMClassifier` in common rounds, their compression operators and merge rules.

Each algorithm is a dataclass of its parameters that makes the programs of sites. Their base class
in `synchronous` lets them run over networks that lose messages.
"""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.gossip.rounds.compression import Identity as Identity
    from dimargin.gossip.rounds.compression import Logarithmic as Logarithmic
    from dimargin.gossip.rounds.compression import Quantised as Quantised
    from dimargin.gossip.rounds.compression import RandomK as RandomK
    from dimargin.gossip.rounds.compression import TopK as TopK
    from dimargin.gossip.rounds.consensus_admm import ConsensusADMM as ConsensusADMM
    from dimargin.gossip.rounds.merging import ClippedMean as ClippedMean
    from dimargin.gossip.rounds.merging import Mean as Mean
    from dimargin.gossip.rounds.merging import NearestMixing as NearestMixing
    from dimargin.gossip.rounds.merging import TrimmedMean as TrimmedMean
    from dimargin.gossip.rounds.privacy import Privacy as Privacy
    from dimargin.gossip.rounds.private_admm import PrivateADMM as PrivateADMM
    from dimargin.gossip.rounds.robust import RobustGossip as RobustGossip
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
