"""Maximal marginal relevance equals a slow greedy selection."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Candidates
from shortlist.errors import ConfigError
from shortlist.stages import Diverse
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, found, listed, query_of, run_checked

AXES = torch.eye(4)[torch.arange(N_ITEMS) % 4]


def greedy(scores, vectors, strength, k):
    """The slow version: try every candidate at every step; a score of None is an empty place."""
    finite = [score for score in scores if score is not None and math.isfinite(score)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    spread = max(high - low, 1e-12)
    selected = []
    for _ in range(k):
        best = None
        for place, score in enumerate(scores):
            if score is None or place in selected:
                continue
            relevance = (score - low) / spread if math.isfinite(score) else -2.0
            similarity = max((float(vectors[place] @ vectors[other]) for other in selected), default=0.0)
            value = (1 - strength) * relevance - strength * max(similarity, 0.0)
            if best is None or value > best[0] + 1e-6:
                best = (value, place)
        if best is not None:
            selected.append(best[1])
    return selected


def test_selection_of_a_case_by_hand():
    # 0 and 4 have the same vector; 4 has the second best score but is too similar to 0.
    candidates = Candidates.of(torch.tensor([[0, 4, 1, 2]]), torch.tensor([[1.0, 0.9, 0.5, 0.0]]))
    selected = (Diverse(AXES, 0.5) % 3)(query_of(), candidates)
    assert selected.items.tolist() == [[0, 1, 2]]
    assert (Diverse(AXES, 0.0) % 3)(query_of(), candidates).items.tolist() == [[0, 4, 1]]


score = st.one_of(st.none(), st.sampled_from([math.nan, -math.inf]), st.integers(-8, 8).map(float))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(score, min_size=1, max_size=9),
    st.sampled_from([0.0, 0.25, 0.5, 0.75]),
    st.integers(1, 6),
    st.integers(0, 99),
)
def test_selection_equals_the_slow_greedy_one(scores, strength, k, seed):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.nn.functional.normalize(torch.randn(len(scores), 3, generator=generator), dim=1)
    positions = Diverse(vectors, strength, k=k).select(query_of(), found(scores))[0].tolist()
    assert [place for place in positions if place >= 0] == greedy(scores, vectors, strength, k)


def test_strength_0_selects_by_score():
    slate = run_checked(listed("a", [5, 1, 9, 13]) >> Diverse(AXES, 0.0) % 4, query_of())
    assert slate.items.tolist() == [[5, 1, 9, 13]]


def test_strength_1_shows_all_directions_before_repeating_one():
    slate = run_checked(listed("a", list(range(12))) >> Diverse(AXES, 1.0) % 4, query_of())
    assert sorted(item % 4 for item in slate.items[0].tolist()) == [0, 1, 2, 3]


def test_stage_keeps_its_contract_and_is_the_same_when_rebuilt():
    stage = Diverse(AXES, 0.4, name="mix") % 6
    check_stage(stage, N_ITEMS)
    back = Diverse.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)


@pytest.mark.parametrize("strength", [-0.1, 1.1, math.nan])
def test_strength_outside_0_to_1_is_refused(strength):
    with pytest.raises(ConfigError, match="diverse: strength must lie between 0 and 1"):
        Diverse(AXES, strength)
