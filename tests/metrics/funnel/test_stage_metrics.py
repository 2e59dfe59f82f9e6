"""Recall of a cascade, the utility that stages lose, and the value of a stage."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import DataError
from shortlist.metrics.funnel.cascade import stages_reached, top_mask
from shortlist.metrics.funnel.stage_metrics import (
    cascade_utility,
    joint_recall,
    stage_recall,
    stage_value,
    utility_lost,
)


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_joint_recall_of_lists_of_forty() -> None:
    """Recall@10@20 with capacities 30 -> 20, against sets."""
    scores, final = rand(30, 2, 40), rand(30, 40, seed=1)
    truth = top_mask(final, 10)
    found = joint_recall(scores, (30, 20), truth)
    for row in range(30):
        first = scores[row, 0].argsort(descending=True)[:30].tolist()
        second = sorted(first, key=lambda item, row=row: -float(scores[row, 1, item]))[:20]
        best = set(final[row].argsort(descending=True)[:10].tolist())
        assert float(found[row]) == pytest.approx(len(best & set(second)) / 10)


def test_joint_recall_is_at_most_the_recall_of_the_first_stage() -> None:
    scores, truth = rand(50, 3, 50), top_mask(rand(50, 50, seed=2), 10)
    joint, first = joint_recall(scores, (40, 30, 20), truth), stage_recall(scores[:, 0], 40, truth)
    assert (joint <= first).all()
    assert torch.equal(stage_recall(scores[:, 0], 50, truth), torch.ones(50, dtype=torch.float64))


def test_cascade_that_ranks_by_the_truth_has_full_recall() -> None:
    final = rand(5, 40)
    assert (joint_recall(final[:, None].expand(5, 2, 40), (30, 20), top_mask(final, 10)) == 1).all()


def test_recall_without_true_items_is_nan() -> None:
    assert joint_recall(rand(1, 1, 4), (2,), torch.zeros(1, 4)).isnan().all()


@given(st.integers(0, 10_000), st.lists(st.integers(1, 30), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_lost_utilities_add_up_to_the_whole_loss(seed: int, caps: list[int]) -> None:
    """Spec test 33: the sum is U_0* - U_T within 1e-9, every loss is at least 0."""
    caps = sorted(caps, reverse=True)
    scores, relevance, mask = rand(4, len(caps), 30, seed=seed), rand(4, 30, seed=seed + 1), rand(4, 30) < 0.9
    found = utility_lost(relevance, stages_reached(scores, caps, mask), len(caps), caps[-1])
    whole = (relevance * mask).topk(caps[-1]).values.sum(1)
    final = cascade_utility(scores, caps, relevance, mask)
    assert (found.lost >= 0).all()
    assert found.lost.sum(1).tolist() == pytest.approx((whole - final).tolist(), abs=1e-9)
    assert found.best[:, -1].tolist() == pytest.approx(final.tolist(), abs=1e-9)


def test_weights_stand_for_equal_items_that_were_not_logged() -> None:
    """Every item of S = 0 and 1 three times in the full log, once with weight 3 in the sampled one."""
    relevance, reached = rand(1, 12), torch.tensor([[0] * 4 + [1] * 6 + [2] * 2])
    copies = torch.where(reached[0] < 2, 3, 1)
    full = utility_lost(
        relevance[0].repeat_interleave(copies)[None], reached[0].repeat_interleave(copies)[None], 2, 2
    )
    sampled = utility_lost(relevance, reached, 2, 2, copies[None].double())
    assert sampled.best.tolist()[0] == pytest.approx(full.best.tolist()[0])


def test_oracle_in_place_of_a_stage_never_lowers_the_utility_of_the_last_one() -> None:
    scores, relevance = rand(40, 3, 60), rand(40, 60, seed=3)
    assert (stage_value(scores, (30, 15, 5), relevance, 3, relevance) >= 0).all()
    assert (stage_value(scores, (30, 15, 5), relevance, 2, scores[:, 1]) == 0).all()
    better = stage_value(scores, (30, 15, 5), relevance, 2, relevance).mean()
    worse = stage_value(scores, (30, 15, 5), relevance, 2, -relevance).mean()
    assert worse < 0 < better


def test_negative_relevance_is_refused() -> None:
    with pytest.raises(DataError, match="relevance >= 0"):
        utility_lost(torch.tensor([[-1.0, 0.5]]), torch.tensor([[0, 1]]), 1, 1)
