"""Exploration: the odds on record are the odds of the draw, exactly and in the long run."""

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
from tests.worlds import N_ITEMS, asked, found, listed, run_checked, tiny

SCORES = [0.3, 0.1, 0.0, 0.25]
HEAT = 0.2


def odds(slate, scores=SCORES, temperature=HEAT):
    """The probability of each draw of a slate given those before it, by the definition of Plackett and Luce."""
    weight = {item: math.exp(score / temperature) for item, score in enumerate(scores)}
    drawn = []
    for item in slate:
        drawn.append(weight[item] / sum(weight.values()))
        del weight[item]
    return drawn


def draws(seeds, k, scores=SCORES, temperature=HEAT):
    query = Query.of([[]] * len(seeds), seeds=seeds)
    field = Candidates.of(
        torch.arange(len(scores)).repeat(len(seeds), 1), torch.tensor([scores] * len(seeds))
    )
    return (Explore(temperature) % k)(query, field)


def test_the_propensities_of_all_slates_are_the_exact_probabilities_and_sum_to_one():
    drawn = draws(range(3000), 4)
    told = {
        tuple(row): p for row, p in zip(drawn.items.tolist(), drawn.columns[PROPENSITY].tolist(), strict=True)
    }
    assert set(told) == set(itertools.permutations(range(4))), "every order was drawn"
    for slate, propensities in told.items():
        assert propensities == pytest.approx(odds(slate), rel=1e-4)
    assert sum(math.prod(propensities) for propensities in told.values()) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_slates_are_drawn_as_often_as_their_propensities_say(k):
    seeds = range(8000)
    drawn = draws(seeds, k)
    slates = list(itertools.permutations(range(4), k))
    counts = [0] * len(slates)
    for row in drawn.items.tolist():
        counts[slates.index(tuple(row))] += 1
    expected = [len(seeds) * math.prod(odds(slate)) for slate in slates]
    assert stats.chisquare(counts, expected).pvalue > 0.01


def test_the_same_seed_draws_the_same_slate_and_other_seeds_others():
    assert torch.equal(draws([5, 6, 5], 3).items[0], draws([5, 6, 5], 3).items[2])
    assert len({tuple(row) for row in draws(range(200), 3).items.tolist()}) > 10


def test_what_stands_beside_a_request_or_in_what_order_its_rivals_come_does_not_change_the_draw():
    whole = draws([1, 2, 3], 3)
    for row, seed in enumerate([1, 2, 3]):
        alone = draws([seed], 3)
        assert torch.equal(alone.items[0], whole.items[row])
        assert torch.equal(alone.columns[PROPENSITY][0], whole.columns[PROPENSITY][row])
    field = Candidates.of(torch.tensor([[3, 1, 0, 2]]), torch.tensor([[0.25, 0.1, 0.3, 0.0]]))
    assert torch.equal((Explore(HEAT) % 3)(Query.of([[]], seeds=[2]), field).items[0], whole.items[1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(0, 99),
)
def test_empty_places_are_never_drawn_and_have_no_propensity(scores, k, seed):
    drawn = (Explore(0.5) % k)(Query.of([[]], seeds=[seed]), found(scores))
    there = [place for place, score in enumerate(scores) if score is not None]
    kept = drawn.items[drawn.valid].tolist()
    assert len(kept) == min(k, len(there))
    assert set(kept) <= set(there)
    assert drawn.columns[PROPENSITY][~drawn.valid].tolist() == [0.0] * int((~drawn.valid).sum())
    weights = {place: math.exp(scores[place] / 0.5) for place in there}
    for item, told in zip(kept, drawn.columns[PROPENSITY][drawn.valid].tolist(), strict=True):
        assert told == pytest.approx(weights[item] / sum(weights.values()), rel=1e-3)
        del weights[item]


def test_scores_that_are_no_numbers_are_drawn_last():
    field = found([math.nan, 0.1, 0.2, -math.inf])
    drawn = (Explore(0.1) % 4)(asked(), field)
    assert set(drawn.items[0, :2].tolist()) == {1, 2}
    assert torch.isfinite(drawn.columns[PROPENSITY]).all()


def test_broken_scores_are_drawn_among_each_other_as_often_as_their_propensities_say():
    drawn = draws(range(3000), 1, [math.nan, math.inf, -math.inf])
    assert drawn.columns[PROPENSITY].unique().tolist() == pytest.approx([1 / 3])
    assert stats.chisquare(drawn.items.flatten().bincount().numpy()).pvalue > 0.01


def test_little_heat_is_the_order_of_the_scores():
    assert draws(range(50), 4, temperature=1e-4).items.unique(dim=0).tolist() == [[0, 3, 1, 2]]


def test_the_noise_is_that_of_gumbel():
    noise = gumbel(torch.arange(200), torch.arange(100).expand(200, 100)).flatten()
    assert stats.kstest(noise.numpy(), stats.gumbel_r.cdf).pvalue > 0.01
    assert torch.isfinite(gumbel(torch.tensor([-(2**63), 2**63 - 1]), torch.tensor([[0], [2**40]]))).all()


def test_it_keeps_the_contract_in_and_out_of_a_pipeline():
    check_stage(Explore() % 5, N_ITEMS)
    slate = run_checked(tiny() >> Explore(name="draw") % 3, asked([1], []))
    assert ((slate.candidates.columns[PROPENSITY] > 0) == slate.candidates.valid).all()
    assert run_checked(listed("a", []) >> Explore(), asked()).candidates.columns[PROPENSITY].shape == (1, 0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_heat_must_be_above_0(temperature):
    with pytest.raises(ConfigError, match="explore 'explore': temperature must be above 0"):
        Explore(temperature)
