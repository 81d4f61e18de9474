"""Public copies of rivals: the checks of test_public_copies."""

import pytest
import test_public_copies
from test_public_copies import NETWORKS

from dimargin.gossip.rounds import Logarithmic, TopK
from dimargin_bench.gossip_rivals import ChocoSGD, MoMDSVM

CHOCO, MOM = ChocoSGD(TopK(0.3), 0.4), MoMDSVM(compression=Logarithmic(3))


@pytest.mark.parametrize("conditions", NETWORKS.values(), ids=NETWORKS)
def test_copies_are_the_same_wherever_they_are(conditions, monkeypatch):
    test_public_copies.test_copies_are_the_same_wherever_they_are(CHOCO, conditions, monkeypatch)


@pytest.mark.parametrize("algorithm", [CHOCO, MOM])
def test_a_copy_that_is_another_one_is_made_anew(algorithm, monkeypatch):
    test_public_copies.test_a_copy_that_is_another_one_is_made_anew(algorithm, monkeypatch)


def test_sites_that_have_forgotten_learn_on():
    test_public_copies.test_sites_that_have_forgotten_learn_on(MOM)


def test_a_liar_leaves_nothing_behind():
    test_public_copies.test_a_liar_leaves_nothing_behind(MOM)
