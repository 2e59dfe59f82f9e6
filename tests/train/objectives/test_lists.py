import math

import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import ConfigError
from shortlist.train.objectives.lists import has_pair, mean_over, preferred, ranks, reduce_pairs
from tests.train.objectives.cases import S, Z, full, lists, row, slow_pairs, slow_ranks


@given(lists(ties=True))
@settings(max_examples=50, deadline=None)
def test_ranks_count_greater_scores_and_equal_ones_before(case):
    scores, _, mask = case
    rank = ranks(scores, mask)
    for own, valid, got in zip(scores, mask, rank, strict=True):
        assert got[valid].tolist() == slow_ranks(own[valid].tolist())
        assert sorted(got.tolist()) == list(range(1, scores.shape[1] + 1))


def test_equal_scores_are_ranked_by_ascending_id():
    scores, ids = row([1.0, 2.0, 1.0, 1.0]), torch.tensor([[7, 9, 3, 5]])
    assert ranks(scores, full(scores), ids).tolist() == [[4, 1, 2, 3]]


@given(lists(ties=True))
@settings(max_examples=30, deadline=None)
def test_ranks_by_id_follow_a_permutation_of_the_list(case):
    scores, _, mask = case
    ids = torch.arange(scores.shape[1]).flip(0).expand(scores.shape)
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(0))
    moved = ranks(scores[:, order], mask[:, order], ids[:, order])
    assert torch.where(mask, ranks(scores, mask, ids), 0)[:, order].equal(
        torch.where(mask[:, order], moved, 0)
    )


def test_list_a_has_14_pairs():
    """Specification 6, test 1."""
    pairs = preferred(row(Z), full(row(S)))
    assert pairs.sum() == 14 == len(slow_pairs(list(Z)))


@given(lists())
@settings(max_examples=30, deadline=None)
def test_list_has_a_pair_exactly_if_one_item_is_preferred(case):
    _, labels, mask = case
    assert has_pair(labels, mask).equal(preferred(labels, mask).any(2).any(1))
    assert has_pair(labels.long(), mask).equal(has_pair(labels, mask))


def test_list_of_length_zero_has_no_pair():
    assert has_pair(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool)).tolist() == [False, False]


def test_mean_ignores_what_stands_at_padding():
    values, mask = row([1.0, math.nan, 4.0]), torch.tensor([[True, False, True]])
    assert mean_over(values, mask).item() == 2.5
    assert mean_over(values, mask, row([1.0, 5.0, 3.0])).item() == (1 + 12) / 4
    assert mean_over(values, torch.zeros_like(mask)).item() == 0


def test_unknown_reduction_is_refused():
    losses = torch.zeros(1, 2, 2)
    with pytest.raises(ConfigError, match="reduction must be one of sum, mean"):
        reduce_pairs(losses, losses > 0, None, "median")
