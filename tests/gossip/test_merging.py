"""Rules of merging: what they do without liars, and how far liars can take a site."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import trim_mean

from dimargin.gossip.rounds.merging import ClippedMean, Mean, MergeRule, NearestMixing, TrimmedMean
from dimargin.gossip.topology import make_graph, metropolis_weights

ROBUST = [TrimmedMean(2), ClippedMean(2), NearestMixing(2), NearestMixing(2, ClippedMean(2))]
RULES = [Mean(), *ROBUST, ClippedMean(1, radius=0.3)]
name_of = str
numbers = st.integers(-(10**6), 10**6).map(lambda k: k / 1000)
lies = st.one_of(st.floats(-1e12, 1e12), st.sampled_from([0.0, 1e-9, 1e140, -1e140]))


@st.composite
def neighbourhoods(draw, least=5):
    """The own vector, those of honest neighbours, those of two liars, and weights of all neighbours."""
    shape = draw(st.sampled_from([(1,), (3,), (2, 2)]))
    size = math.prod(shape)
    array = lambda of: np.array(draw(st.lists(of, min_size=size, max_size=size))).reshape(shape)  # noqa: E731
    honest = {f"honest{k}": array(numbers) for k in range(draw(st.integers(least - 2, least + 1)))}
    liars = {f"a liar{k}": array(lies) for k in range(2)}
    names = [*honest, *liars]
    weights = {name: draw(st.floats(0.01, 1 / (len(names) + 1))) for name in names}
    return array(numbers), honest, liars, weights


def distance(a, b):
    return float(np.linalg.norm(a - b))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(neighbourhoods())
@settings(max_examples=30, deadline=None)
def test_who_agrees_stays_as_it_is(rule, drawn):
    own, honest, liars, weights = drawn
    assert_array_equal(rule(own, dict.fromkeys([*honest, *liars], own), weights), own)


@pytest.mark.parametrize("rule", ROBUST, ids=repr)
@given(neighbourhoods())
@settings(max_examples=30, deadline=None)
def test_liars_move_nobody_whose_honest_neighbours_agree_with_it(rule, drawn):
    own, honest, liars, weights = drawn
    assert_array_equal(rule(own, dict.fromkeys(honest, own) | liars, weights), own)


@given(neighbourhoods())
@settings(max_examples=50, deadline=None)
def test_a_trimmed_mean_is_between_the_honest_sites(drawn):
    own, honest, liars, weights = drawn
    merged = TrimmedMean(2)(own, honest | liars, weights)
    values = np.array([own, *honest.values()])
    assert (merged >= values.min(axis=0) - 1e-9).all() and (merged <= values.max(axis=0) + 1e-9).all()


@given(neighbourhoods())
@settings(max_examples=50, deadline=None)
def test_liars_move_a_clipped_mean_by_their_weights_times_the_farthest_honest_distance(drawn):
    own, honest, liars, weights = drawn
    far = max(distance(x, own) for x in honest.values())
    radius = sorted(distance(x, own) for x in (honest | liars).values())[-3]
    assert radius <= far
    honest_part = ClippedMean(0, radius or 1.0)(own, honest, weights)
    moved = distance(ClippedMean(2)(own, honest | liars, weights), honest_part if radius else own)
    assert moved <= sum(weights[name] for name in liars) * far * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("rule", [NearestMixing(2), NearestMixing(2, ClippedMean(2))], ids=repr)
@given(neighbourhoods())
@settings(max_examples=30, deadline=None)
def test_liars_move_mixed_vectors_by_twice_the_diameter_of_the_honest_at_most(rule, drawn):
    own, honest, liars, weights = drawn
    everyone = [own, *honest.values()]
    diameter = max(distance(a, b) for a in everyone for b in everyone)
    assert np.abs(rule(own, honest | liars, weights) - own).max() <= 2 * diameter * (1 + 1e-9) + 1e-9


def test_far_liars_are_not_mixed_in():
    class Own(MergeRule):
        def __call__(self, own, received, weights):
            return own

    rng = np.random.default_rng(0)
    own, honest = rng.normal(size=4), {f"honest{k}": rng.normal(size=4) for k in range(5)}
    received = honest | {"eve": np.full(4, 1e6), "mallory": np.full(4, -50.0)}
    assert_allclose(NearestMixing(2, Own())(own, received, {}), np.mean([own, *honest.values()], axis=0), rtol=1e-12)


@given(neighbourhoods())
@settings(max_examples=50, deadline=None)
def test_mixed_vectors_of_honest_sites_are_as_near_to_their_mean_as_in_the_paper(drawn):
    """Allouah et al. 2023: variance and bias together are at most ``8 f / (n - f)`` times the variance before."""

    class Seen(Mean):
        def __call__(self, own, received, weights):
            everyone.append(np.array([own, *(received[name] for name in honest)]))
            return own

    own, honest, liars, _ = drawn
    everyone = [np.array([own, *honest.values()])]
    NearestMixing(2, Seen())(own, honest | liars, {})
    before, after = (vectors.reshape(len(vectors), -1) for vectors in everyone)
    spread = [((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1).mean() for vectors in (before, after)]
    moved = ((after.mean(axis=0) - before.mean(axis=0)) ** 2).sum()
    assert spread[1] + moved <= 8 * 2 / len(before) * spread[0] * (1 + 1e-9) + 1e-9


@given(neighbourhoods(), st.integers(0, 2))
@settings(max_examples=30, deadline=None)
def test_trimmed_means_are_those_of_scipy(drawn, f):
    own, honest, _, _ = drawn
    honest = {**honest, "x": own + 1, "y": own - 1}
    k = len(honest)
    middle = trim_mean(np.array(list(honest.values())), f / k + 1e-9, axis=0)
    assert_allclose(
        TrimmedMean(f)(own, honest, {}), (own + (k - 2 * f) * middle) / (k - 2 * f + 1), rtol=1e-9, atol=1e-9
    )


@given(neighbourhoods())
@settings(max_examples=30, deadline=None)
def test_with_no_liars_expected_and_a_long_radius_a_clipped_mean_is_the_mean(drawn):
    own, honest, _, weights = drawn
    mean = Mean()(own, honest, weights)
    assert_allclose(mean, own + sum(weights[name] * (x - own) for name, x in honest.items()), rtol=1e-9, atol=1e-9)
    for rule in (ClippedMean(0), ClippedMean(3, radius=1e6)):
        assert_array_equal(rule(own, honest, weights), mean)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(neighbourhoods())
@settings(max_examples=30, deadline=None)
def test_the_order_of_arrival_changes_nothing_and_nobodys_array_is_written_to(rule, drawn):
    own, honest, liars, weights = drawn
    received = honest | liars
    before = own.copy(), {name: x.copy() for name, x in received.items()}
    turned = dict(reversed(received.items()))
    assert_array_equal(rule(own, received, weights), rule(own, turned, weights))
    assert_array_equal(own, before[0])
    for name, x in received.items():
        assert_array_equal(x, before[1][name])


@pytest.mark.parametrize(("rule", "least"), list(zip(ROBUST, [5, 3, 5, 3], strict=True)), ids=repr)
def test_who_hears_too_few_keeps_its_own(rule, least):
    assert rule.least == least
    own, received = np.zeros(2), {name_of(k): np.full(2, 1.0 + k) for k in range(least)}
    weights = dict.fromkeys(received, 0.1)
    assert (rule(own, received, weights) > 0).all()
    received.popitem()
    assert_array_equal(rule(own, received, weights), own)


def rounds(rule, start, graph, n_rounds):
    """Merge synchronously, without liars."""
    weights, x = metropolis_weights(graph), start.copy()
    for _ in range(n_rounds):
        x = np.array([
            rule(x[i], {name_of(j): x[j] for j in graph[i]}, {name_of(j): weights[i, j] for j in graph[i]})
            for i in graph
        ])  # fmt: skip
    return x


@pytest.mark.parametrize("rule", [Mean(), *ROBUST], ids=repr)
def test_what_robustness_costs_when_nobody_lies(rule):
    """Sites still come to agree, not quite on their mean: its error is a share of their standard deviation."""
    start = np.random.default_rng(1).normal(size=(10, 20))
    end = rounds(rule, start, make_graph("complete", 10), 60)
    spread = np.abs(end - end.mean(axis=0)).max()
    error = np.sqrt(((end.mean(axis=0) - start.mean(axis=0)) ** 2).mean()) / start.std()
    assert spread < 1e-3
    assert error < (1e-12 if rule == Mean() else 0.25)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (TrimmedMean(-1), "f must be a whole number not below 0, got -1"),
        (TrimmedMean(True), "f must be .* got True"),
        (ClippedMean(1.5), "f must be .* got 1.5"),
        (ClippedMean(1, radius=0.0), "radius must be a number above 0, got 0.0"),
        (ClippedMean(1, radius="far"), "radius must be .* got 'far'"),
        (ClippedMean(1, radius=math.inf), "radius must be .* got inf"),
        (NearestMixing(1, TrimmedMean(-2)), "f must be .* got -2"),
        (NearestMixing(-1), "f must be .* got -1"),
    ],
    ids=repr,
)
def test_parameters_out_of_range(rule, text):
    with pytest.raises(ValueError, match=text):
        rule.validate()


@pytest.mark.parametrize("rule", [*RULES, NearestMixing(np.int64(2))], ids=repr)
def test_valid_parameters(rule):
    rule.validate()
