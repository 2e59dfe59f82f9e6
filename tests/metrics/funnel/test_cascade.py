"""Cascades of score stages: sizes, nesting, ties, and the intersection of stage tops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.cascade import (
    by_item_id,
    intersection,
    places,
    stages_reached,
    survivors,
    top_mask,
)


def slow_cascade(scores: torch.Tensor, caps: list[int], present: list[int]) -> list[set[int]]:
    """The sets I^0, I^1, ... of one request [T, n]."""
    sets = [set(present)]
    for stage, cap in enumerate(caps):
        order = sorted(sets[-1], key=lambda item: (-float(scores[stage, item]), item))
        sets.append(set(order[:cap]))
    return sets


@given(st.integers(0, 10_000), st.lists(st.integers(1, 14), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_stages_reached_follow_the_sets_of_a_cascade(seed: int, caps: list[int]) -> None:
    """Spec test 22: sizes, nesting and counts of S, with ties and padding."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (3, len(caps), 12), generator=generator).double()
    mask = torch.rand((3, 12), generator=generator) < 0.8
    reached = stages_reached(scores, caps, mask)
    for row in range(3):
        sets = slow_cascade(scores[row], caps, mask[row].nonzero().ravel().tolist())
        for stage, items in enumerate(sets):
            assert set((reached[row] >= stage).nonzero().ravel().tolist()) == items
            size = len(sets[stage - 1]) if stage else len(items)
            assert len(items) == min(caps[stage - 1], size) if stage else True
            assert items <= sets[max(stage - 1, 0)]
    assert (reached[~mask] == -1).all()


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_order_of_the_input_changes_nothing(seed: int) -> None:
    """Spec test 22: the same items reach the same stages, ties included."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randperm(40, generator=generator)[:15][None]
    scores = torch.randint(0, 3, (1, 3, 15), generator=generator).float()
    moved = torch.randperm(15, generator=generator)
    first, second = by_item_id(items, scores), by_item_id(items[:, moved], scores[:, :, moved])
    assert torch.equal(first[0], second[0])
    assert torch.equal(stages_reached(first[1], (9, 5, 2)), stages_reached(second[1], (9, 5, 2)))


def test_counts_of_a_large_cascade_are_the_capacities() -> None:
    """Spec test 22: #{S >= i} = c_i."""
    reached = stages_reached(torch.rand(50, 3, 400), (200, 50, 6))
    assert [(reached >= stage).sum(1).unique().tolist() for stage in (1, 2, 3)] == [[200], [50], [6]]


def test_intersection_of_stage_tops_is_inside_the_survivors() -> None:
    """Spec test 19: 2000 random cascades, 0 violations; and the inclusion is strict in many."""
    scores = torch.randn(2000, 2, 12, generator=torch.Generator().manual_seed(0))
    inside, kept = intersection(scores, (6, 3)), survivors(scores, (6, 3))
    assert not (inside & ~kept).any()
    assert (kept & ~inside).any(1).sum() > 1000


def test_true_items_outside_the_intersection_are_at_least_the_misses_of_the_cascade() -> None:
    """Spec test 18, for hard selection: what the end-to-end loss counts bounds the cascade's misses."""
    scores = torch.randn(500, 3, 20, generator=torch.Generator().manual_seed(1))
    truth = top_mask(torch.randn(500, 20, generator=torch.Generator().manual_seed(2)), 5)
    outside = (truth & ~intersection(scores, (12, 8, 5))).sum(1)
    missed = (truth & ~survivors(scores, (12, 8, 5))).sum(1)
    assert (outside >= missed).all()
    assert (outside > missed).any()


def test_places_put_padding_last_whatever_its_score() -> None:
    scores = torch.tensor([[1.0, torch.inf, -torch.inf, 1.0]])
    mask = torch.tensor([[True, False, True, True]])
    assert places(scores, mask).tolist() == [[1, 5, 3, 2]]


def test_item_of_score_minus_infinity_passes_before_padding() -> None:
    reached = stages_reached(torch.full((1, 1, 3), -torch.inf), (2,), torch.tensor([[False, True, True]]))
    assert reached.tolist() == [[-1, 1, 1]]


def test_number_of_capacities_must_be_the_number_of_stages() -> None:
    with pytest.raises(ConfigError, match="one capacity per stage"):
        stages_reached(torch.rand(1, 2, 5), (3,))
