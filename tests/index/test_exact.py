"""Exact search: what a full sort says, ties by row, whatever the block."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.index import search, top


def slow(scores, k):
    """The k best of each row by (score descending, position)."""
    rows = [sorted(range(len(row)), key=lambda at, row=row: (-row[at], at))[:k] for row in scores.tolist()]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(scores), -1)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.integers(1, 14), st.integers(1, 9), st.integers(0, 2**31), st.integers(1, 3))
def test_search_equals_a_full_sort_with_ties_whatever_the_block(count, k, block, seed, spread):
    generator = torch.Generator().manual_seed(seed)
    # Small whole numbers: products are exact, and most of them tie.
    vectors = torch.randint(-spread, spread + 1, (count, 2), generator=generator).float()
    queries = torch.randint(-spread, spread + 1, (3, 2), generator=generator).float()
    rows, scores = search(vectors, queries, k, block)
    expected = slow(queries @ vectors.T, k)
    assert torch.equal(rows, expected)
    assert torch.equal(scores, (queries @ vectors.T).gather(1, expected))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10), st.integers(0, 12), st.integers(0, 2**31))
def test_top_equals_a_stable_sort(width, k, seed):
    scores = torch.randint(0, 4, (4, width), generator=torch.Generator().manual_seed(seed)).float()
    values, at = top(scores, k)
    assert torch.equal(at, slow(scores, k))
    assert torch.equal(values, scores.gather(1, at))


def test_random_vectors_agree_with_the_full_product():
    torch.manual_seed(0)
    vectors, queries = torch.randn(1000, 8), torch.randn(5, 8)
    rows, scores = search(vectors, queries, 20, block=64)
    full = queries @ vectors.T
    assert torch.equal(rows, full.sort(dim=1, descending=True, stable=True).indices[:, :20])
    assert torch.allclose(scores, full.gather(1, rows), atol=1e-5)


@pytest.mark.parametrize("infinite", [float("inf"), float("-inf")])
def test_infinite_scores_have_their_place(infinite):
    assert top(torch.tensor([[0.0, infinite, 1.0]]), 3)[1].tolist() in ([[1, 2, 0]], [[2, 0, 1]])
