"""Logged propensities are the sampling probabilities, exactly and in frequency."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages import Explore
from shortlist.stages.explore import PROPENSITY, gumbel
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, found, listed, query_of, run_checked, tiny

SCORES = [0.3, 0.1, 0.0, 0.25]
TEMPERATURE = 0.2


def propensities_of(slate, scores=SCORES, temperature=TEMPERATURE):
    """The probability of each item of a slate given those before it, by the Plackett-Luce model."""
    weight = {item: math.exp(score / temperature) for item, score in enumerate(scores)}
    probabilities = []
    for item in slate:
        probabilities.append(weight[item] / sum(weight.values()))
        del weight[item]
    return probabilities


def samples(seeds, k, scores=SCORES, temperature=TEMPERATURE):
    query = Query.of([[]] * len(seeds), seeds=seeds)
    candidates = Candidates.of(
        torch.arange(len(scores)).repeat(len(seeds), 1), torch.tensor([scores] * len(seeds))
    )
    return (Explore(temperature) % k)(query, candidates)


def test_propensities_are_exact_and_slate_probabilities_sum_to_one():
    sampled = samples(range(3000), 4)
    by_slate = {
        tuple(row): p
        for row, p in zip(sampled.items.tolist(), sampled.columns[PROPENSITY].tolist(), strict=True)
    }
    assert set(by_slate) == set(itertools.permutations(range(4))), "every order was sampled"
    for slate, propensities in by_slate.items():
        assert propensities == pytest.approx(propensities_of(slate), rel=1e-4)
    assert sum(math.prod(propensities) for propensities in by_slate.values()) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_slate_frequencies_match_their_propensities(k):
    seeds = range(8000)
    sampled = samples(seeds, k)
    slates = list(itertools.permutations(range(4), k))
    counts = [0] * len(slates)
    for row in sampled.items.tolist():
        counts[slates.index(tuple(row))] += 1
    expected = [len(seeds) * math.prod(propensities_of(slate)) for slate in slates]
    assert stats.chisquare(counts, expected).pvalue > 0.01


def test_the_same_seed_draws_the_same_slate_and_other_seeds_others():
    assert torch.equal(samples([5, 6, 5], 3).items[0], samples([5, 6, 5], 3).items[2])
    assert len({tuple(row) for row in samples(range(200), 3).items.tolist()}) > 10


def test_slate_depends_on_neither_the_batch_nor_the_order_of_candidates():
    whole = samples([1, 2, 3], 3)
    for row, seed in enumerate([1, 2, 3]):
        alone = samples([seed], 3)
        assert torch.equal(alone.items[0], whole.items[row])
        assert torch.equal(alone.columns[PROPENSITY][0], whole.columns[PROPENSITY][row])
    candidates = Candidates.of(torch.tensor([[3, 1, 0, 2]]), torch.tensor([[0.25, 0.1, 0.3, 0.0]]))
    assert torch.equal(
        (Explore(TEMPERATURE) % 3)(Query.of([[]], seeds=[2]), candidates).items[0], whole.items[1]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(0, 99),
)
def test_empty_places_are_never_sampled_and_have_no_propensity(scores, k, seed):
    sampled = (Explore(0.5) % k)(Query.of([[]], seeds=[seed]), found(scores))
    valid = [place for place, score in enumerate(scores) if score is not None]
    kept = sampled.items[sampled.valid].tolist()
    assert len(kept) == min(k, len(valid))
    assert set(kept) <= set(valid)
    assert sampled.columns[PROPENSITY][~sampled.valid].tolist() == [0.0] * int((~sampled.valid).sum())
    weights = {place: math.exp(scores[place] / 0.5) for place in valid}
    for item, propensity in zip(kept, sampled.columns[PROPENSITY][sampled.valid].tolist(), strict=True):
        assert propensity == pytest.approx(weights[item] / sum(weights.values()), rel=1e-3)
        del weights[item]


def test_scores_that_are_not_finite_are_sampled_last():
    candidates = found([math.nan, 0.1, 0.2, -math.inf])
    sampled = (Explore(0.1) % 4)(query_of(), candidates)
    assert set(sampled.items[0, :2].tolist()) == {1, 2}
    assert torch.isfinite(sampled.columns[PROPENSITY]).all()


def test_scores_that_are_not_finite_are_equally_likely():
    sampled = samples(range(3000), 1, [math.nan, math.inf, -math.inf])
    assert sampled.columns[PROPENSITY].unique().tolist() == pytest.approx([1 / 3])
    assert stats.chisquare(sampled.items.flatten().bincount().numpy()).pvalue > 0.01


def test_low_temperature_is_the_order_of_the_scores():
    assert samples(range(50), 4, temperature=1e-4).items.unique(dim=0).tolist() == [[0, 3, 1, 2]]


def test_noise_has_a_gumbel_distribution():
    noise = gumbel(torch.arange(200), torch.arange(100).expand(200, 100)).flatten()
    assert stats.kstest(noise.numpy(), stats.gumbel_r.cdf).pvalue > 0.01
    assert torch.isfinite(gumbel(torch.tensor([-(2**63), 2**63 - 1]), torch.tensor([[0], [2**40]]))).all()


def test_stage_keeps_its_contract_in_and_out_of_a_pipeline():
    check_stage(Explore() % 5, N_ITEMS)
    slate = run_checked(tiny() >> Explore(name="draw") % 3, query_of([1], []))
    assert ((slate.candidates.columns[PROPENSITY] > 0) == slate.candidates.valid).all()
    assert run_checked(listed("a", []) >> Explore(), query_of()).candidates.columns[PROPENSITY].shape == (
        1,
        0,
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_temperature_must_be_above_0(temperature):
    with pytest.raises(ConfigError, match="explore: temperature must be at least 1e-09"):
        Explore(temperature)
