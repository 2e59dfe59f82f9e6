"""The k best sums of a request equal the k best of the matrix of all scores."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.index import top
from shortlist.index.sparse_top import sparse_top
from shortlist.models.sparse_scores import SparseScores


def dense(keys, values, n_items, exclude, base, scale):
    """The scores of all items."""
    sums = torch.zeros(len(keys), n_items + 1).scatter_add_(1, keys.masked_fill(keys < 0, n_items), values)
    return (sums[:, :-1] + base) / scale[:, None]


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 3),
    st.integers(1, 300),
    st.integers(0, 40),
    st.integers(0, 200),
    st.sampled_from((2, 1000)),
    st.integers(0, 1000),
)
def test_sums_with_a_base_equal_the_top_of_all_scores(requests, n_items, pairs, k, spread, seed):
    draw = torch.Generator().manual_seed(seed)
    keys = torch.randint(-1, n_items, (requests, pairs), generator=draw)
    values = torch.randint(0, spread, (requests, pairs), generator=draw) / 8
    base = torch.randint(0, spread, (n_items,), generator=draw) / 16
    scale = torch.randint(1, 5, (requests,), generator=draw).float()
    exclude = torch.randint(-1, n_items + 3, (requests, 5), generator=draw)
    order = base.sort(descending=True, stable=True).indices
    scores = dense(keys, values, n_items, exclude, base, scale)
    expected, at = top(scores, k, exclude)
    items, found = sparse_top(keys, values, n_items, k, exclude, base, order, scale)
    torch.testing.assert_close(found, expected)
    assert items.tolist() == at.masked_fill(expected == -torch.inf, -1).tolist()
    if requests:
        whole = SparseScores(keys, values, base, order, scale)
        torch.testing.assert_close(whole.of(at), scores.gather(1, at))


def test_without_an_order_only_items_with_a_key_are_found():
    items, scores = sparse_top(torch.tensor([[3, 1, 3, -1]]), torch.tensor([[1.0, 1.5, 1.0, 9.0]]), 10, 4)
    assert items.tolist() == [[3, 1, -1, -1]]
    assert scores[0, :2].tolist() == pytest.approx([2.0, 1.5])


def test_equal_scores_are_ordered_by_row_among_popular_and_similar_items():
    base = torch.tensor([0.0, 1.0, 1.0, 1.0])
    order = base.sort(descending=True, stable=True).indices
    items, _ = sparse_top(torch.tensor([[0]]), torch.tensor([[1.0]]), 4, 3, base=base, order=order)
    assert items.tolist() == [[0, 1, 2]]
