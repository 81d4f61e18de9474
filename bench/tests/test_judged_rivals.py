"""The judge of certificates, for rivals that gossip."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from judged_machines import fewer, judge_sites
from judged_problems import OPPOSED, data

import dimargin
from dimargin.gossip.rounds import Quantised, TopK
from dimargin_bench.gossip_rivals import ChocoSGD, GossipLearning, MoMDSVM, SetGossip, UniformGadget

RIVALS = [
    MoMDSVM(compression=TopK(0.3)), ChocoSGD(Quantised(2), 0.5), GossipLearning(), UniformGadget(),
    UniformGadget(form="algorithm 3"), SetGossip("support"),
]  # fmt: skip


@pytest.mark.slow
@fewer
@given(
    data(), st.floats(-8, 2).map(lambda k: 10.0**k), st.sampled_from([1, 2, 3]), st.booleans(), st.booleans(),
    st.sampled_from(RIVALS),
)  # fmt: skip
@example(OPPOSED, 1e-3, 2, False, False, GossipLearning())
def test_gossiping_sites_of_rivals(data, alpha, n_sites, intercept, sparse, algorithm):
    machine = dimargin.GossipSVMClassifier(
        algorithm, n_sites=n_sites, alpha=alpha, fit_intercept=intercept, max_iter=30, random_state=0, share_rows=True
    )
    judge_sites(machine, data, sparse)
