"""Models of rivals in files, of the library and of skops: their classes are registered by entry points."""

import pickle

import numpy as np
import pytest
import skops.io
from sklearn.datasets import make_blobs

import dimargin as dm
from dimargin.gossip.rounds import ClippedMean, Logarithmic, Quantised, RandomK, TopK, TrimmedMean
from dimargin_bench.gossip_rivals import (
    ChocoSGD,
    GossipLearning,
    MoMDSVM,
    SetGossip,
    UniformGadget,
    decentralised_sgd,
)

X, Y = make_blobs(90, centers=2, n_features=3, cluster_std=3.0, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "algorithm",
    [
        ChocoSGD(RandomK(0.5), merge=ClippedMean(0)),
        ChocoSGD(TopK(0.5), merge=TrimmedMean(0)),
        ChocoSGD(Quantised(16)),
        decentralised_sgd(),
        MoMDSVM(),
        MoMDSVM(compression=Logarithmic(3)),
        GossipLearning(),
        SetGossip(),
        SetGossip("ranked", share=0.1),
        UniformGadget(),
    ],
)
def test_a_model_comes_back(algorithm, tmp_path):
    machine = dm.GossipSVMClassifier(algorithm, n_sites=3, alpha=1e-2, max_iter=5, share_rows=True, random_state=0)
    machine.fit(X, Y)
    dm.save(machine, tmp_path / "model")
    dumped = skops.io.dumps(machine)
    for again in (
        dm.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(machine)),
        skops.io.loads(dumped, trusted=dm.TRUSTED_TYPES),
    ):
        assert again.algorithm == algorithm
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
