"""Reveal ratio of channels, with full and split credit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.metrics.funnel.reveal import reveal_first, reveal_share, reveal_yield

MASK = np.array([0b001, 0b011, 0b010, 0b110, 0b100])
SHOWN = np.array([True, True, False, False, False])


def test_credit_of_items_with_several_channels() -> None:
    yields, shares = reveal_yield(MASK, SHOWN, 3), reveal_share(MASK, SHOWN, 3)
    assert yields.full.tolist() == pytest.approx([2 / 2, 1 / 3, 0])
    assert yields.split.tolist() == pytest.approx([1.5 / 2, 0.5 / 3, 0])
    assert shares.full.tolist() == pytest.approx([1, 0.5, 0])
    assert shares.split.tolist() == pytest.approx([0.75, 0.25, 0])


@given(st.lists(st.tuples(st.integers(1, 15), st.booleans()), min_size=1, max_size=40))
def test_split_shares_of_a_slate_add_up_to_one(rows: list[tuple[int, bool]]) -> None:
    mask, shown = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    split = reveal_share(mask, shown, 4).split
    assert np.isnan(split).all() if not shown.any() else split.sum() == pytest.approx(1)
    full = reveal_yield(mask, shown, 4).full
    for channel in range(4):
        own = mask >> channel & 1 == 1
        assert full[channel] == pytest.approx(shown[own].mean()) if own.any() else np.isnan(full[channel])


def test_weights_of_sampled_rows_restore_what_a_channel_returned() -> None:
    weight = np.array([1.0, 1, 10, 10, 10])
    assert reveal_yield(MASK, SHOWN, 3, weight).full.tolist() == pytest.approx([1, 1 / 21, 0])


def test_channel_that_returned_nothing_has_no_yield() -> None:
    assert np.isnan(reveal_yield(MASK, SHOWN, 4).full[3])
    assert reveal_share(MASK, SHOWN, 4).full[3] == 0


def test_sixty_third_channel_is_read_from_a_signed_mask() -> None:
    mask = np.array([-(2**63) + 1], dtype=np.int64)
    assert reveal_yield(mask, np.array([True]), 64).full[[0, 62, 63]].tolist()[::2] == [1, 1]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.booleans()), min_size=1, max_size=40
    )
)
def test_credits_of_a_slate_add_up_to_one_and_full_credit_to_more_where_channels_overlap(
    rows: list[tuple[list[int], bool]],
) -> None:
    """T29; rank 4 is "not returned", and every item has a channel."""
    rank = np.array([[0, *one[1:]] if min(one) == 4 else one for one, _ in rows])
    shown = np.array([flag for _, flag in rows])
    mask = ((rank < 4) << np.arange(3)).sum(1)
    first, share = reveal_first(rank, shown), reveal_share(mask, shown, 3)
    if not shown.any():
        assert np.isnan(first).all()
        return
    assert first.sum() == pytest.approx(1)
    assert share.split.sum() == pytest.approx(1)
    overlap = bool(((rank < 4).sum(1)[shown] > 1).any())
    assert share.full.sum() > 1 + 1e-9 if overlap else share.full.sum() == pytest.approx(1)


def test_shown_item_belongs_to_the_channel_that_ranks_it_best() -> None:
    rank = np.array([[0, 5, 9], [3, 1, 9], [2, 2, 9]])
    assert reveal_first(rank, np.array([True, True, True])).tolist() == pytest.approx([0.5, 0.5, 0])
    assert reveal_first(rank, np.array([False, True, False]), np.ones(3)).tolist() == [0, 1, 0]
