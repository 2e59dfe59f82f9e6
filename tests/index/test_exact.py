"""Exact search equals a full sort with ties by row, for any block size, batch and number of threads."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.index import exact, search, top
from shortlist.index.exact import in_blocks, mask_rows, warmup


def full_sort(scores, k, exclude=None):
    """The k best of each row by (score descending, position) without excluded ones, padded with -1."""
    results = []
    for row, own in enumerate(scores.tolist()):
        left = set(range(len(own))) - (set() if exclude is None else set(exclude[row].tolist()))
        best = sorted(left, key=lambda at, own=own: (-own[at], at))[:k]
        results.append(best + [-1] * (min(k, len(own)) - len(best)))
    return torch.tensor(results, dtype=torch.int64).reshape(len(scores), -1)


def at(scores, rows):
    """The scores of rows, -inf for -1."""
    return (
        scores.gather(1, rows.clamp(min=0)).masked_fill(rows < 0, -torch.inf) if scores.shape[1] else scores
    )


sizes = st.one_of(st.integers(0, 12), st.integers(13, 40))


@settings(max_examples=200, deadline=None)
@given(
    sizes,
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.booleans(),
)
def test_search_equals_a_full_sort_for_any_block_size(
    count, k, block, width, n_queries, seed, spread, with_exclude
):
    generator = torch.Generator().manual_seed(seed)
    # Small whole numbers: products are exact, and most of them tie.
    vectors = torch.randint(-spread, spread + 1, (count, width), generator=generator).float()
    queries = torch.randint(-spread, spread + 1, (n_queries, width), generator=generator).float()
    exclude = torch.randint(-1, count + 2, (n_queries, 6), generator=generator) if with_exclude else None
    full = queries @ vectors.T
    expected = full_sort(full, k, exclude)
    for implementation in (search, in_blocks):
        rows, scores = implementation(vectors, queries, k, block, exclude)
        assert torch.equal(rows, expected)
        assert torch.equal(scores, at(full, expected))
        assert (rows.dtype, scores.dtype) == (torch.int64, torch.float32)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.integers(0, 10), st.integers(100, 300)),
    st.one_of(st.integers(0, 12), st.integers(60, 80)),
    st.integers(1, 60),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_top_equals_a_stable_sort(width, k, spread, is_view, with_exclude, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-spread, spread, (4, width), generator=generator).float() * 0.5
    scores = scores.masked_fill(scores < -0.4 * spread, -torch.inf)
    if is_view:  # a view whose rows are not side by side in memory
        scores = torch.nn.functional.pad(scores, (0, 1))[:, :-1]
    exclude = torch.randint(-1, width + 2, (4, 9), generator=generator) if with_exclude else None
    masked = scores if exclude is None else mask_rows(scores, exclude)
    for answer in (top(scores, k, exclude), top(scores.double(), k, exclude)):  # compiled, and by torch
        assert torch.equal(answer[1], full_sort(masked, k))
        assert torch.equal(answer[0].float(), masked.gather(1, answer[1]))


def test_top_of_ascending_scores_and_of_many_ties_considers_every_position():
    rising = torch.arange(5000.0)
    scores = torch.stack([rising, -rising, torch.zeros(5000), (rising >= 4990).float()])
    assert top(scores, 3)[1].tolist() == [[4999, 4998, 4997], [0, 1, 2], [0, 1, 2], [4990, 4991, 4992]]


def test_nan_is_above_every_score_in_top():
    scores = torch.full((1, 300), torch.inf)
    scores[0, [7, 250]] = torch.tensor([torch.nan, -torch.nan])
    assert top(scores, 3)[1].tolist() == [[7, 250, 0]]


def test_top_of_scores_with_a_gradient_keeps_it():
    scores = torch.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
    top(scores, 2)[0].sum().backward()
    assert scores.grad.tolist() == [[0.0, 1.0, 1.0]]


@pytest.mark.parametrize("width", [1, 8, 16, 17, 24, 50, 64, 100])
def test_random_vectors_agree_with_the_full_product(width):
    torch.manual_seed(0)
    vectors, queries = torch.randn(1000, width), torch.randn(5, width)
    rows, scores = search(vectors, queries, 20, block=64)
    full = queries @ vectors.T
    assert torch.equal(rows, full.sort(dim=1, descending=True, stable=True).indices[:, :20])
    assert torch.allclose(scores, full.gather(1, rows), atol=1e-5)


def test_results_have_the_same_bits_in_any_batch_and_on_any_number_of_threads(monkeypatch):
    torch.manual_seed(1)
    vectors, queries = torch.randn(3001, 40), torch.randn(37, 40)
    exclude = torch.randint(-1, 3001, (37, 50))
    rows, scores = search(vectors, queries, 25, exclude=exclude)
    for row in range(37):
        alone = search(vectors, queries[row : row + 1], 25, exclude=exclude[row : row + 1])
        assert torch.equal(alone[0][0], rows[row])
        assert torch.equal(alone[1][0], scores[row])
    monkeypatch.setattr(exact, "BUFFER_BYTES", 8 * 2 * 64 * 3)
    assert torch.equal(search(vectors, queries, 25, exclude=exclude)[1], scores)
    monkeypatch.setattr(exact, "MIN_PRODUCTS_FOR_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for answer, expected in zip(search(vectors, queries, 25, exclude=exclude), (rows, scores), strict=True):
        assert torch.equal(answer, expected)


def test_vectors_in_ascending_order_of_products_are_all_considered():
    vectors = torch.arange(5000.0)[:, None].expand(-1, 16) / 16
    rows, _ = search(vectors, torch.ones(3, 16), 4)
    assert rows.tolist() == [[4999, 4998, 4997, 4996]] * 3
    rows, _ = search(vectors, -torch.ones(1, 16), 4, exclude=torch.tensor([[0, 2, -1]]))
    assert rows.tolist() == [[1, 3, 4, 5]]


def test_minus_zero_ties_with_zero():
    vectors = torch.tensor([[-0.0], [0.0], [-1.0], [0.0]])
    assert search(vectors, torch.ones(1, 1), 4)[0].tolist() == [[0, 1, 3, 2]]


@pytest.mark.parametrize("find", [search, in_blocks])
def test_nan_and_minus_infinity_are_not_returned(find):
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.0], [torch.nan, 0.0], [-torch.inf, 0.0], [torch.inf, 0.0]])
    rows, scores = find(vectors, torch.tensor([[1.0, 1.0], [torch.nan, 1.0], [0.0, torch.inf]]), 4)
    assert rows.tolist() == [[4, 1, 0, -1], [-1] * 4, [-1] * 4]
    assert scores[:, 3].tolist() == [-torch.inf] * 3
    assert (scores[1:] == -torch.inf).all()


def test_excluding_everything_returns_nothing():
    rows, scores = search(torch.ones(5, 2), torch.ones(2, 2), 3, exclude=torch.arange(5).repeat(2, 1))
    assert (rows == -1).all()
    assert (scores == -torch.inf).all()


@pytest.mark.parametrize(("count", "n_queries", "k"), [(0, 2, 3), (3, 0, 3), (3, 2, 0)])
def test_empty_catalogue_batch_or_k_gives_an_empty_result(count, n_queries, k):
    rows, scores = search(torch.ones(count, 4), torch.ones(n_queries, 4), k)
    assert rows.shape == scores.shape == (n_queries, min(k, count))
    assert (rows.dtype, scores.dtype) == (torch.int64, torch.float32)


def test_float64_and_gradients_go_through_torch():
    vectors, queries = torch.randn(50, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    assert search(vectors, queries, 5)[1].dtype == torch.float64
    tracked = queries.float().requires_grad_()
    assert search(vectors.float(), tracked, 5)[1].requires_grad
    with torch.no_grad():
        assert not search(vectors.float(), tracked, 5)[1].requires_grad


def test_strided_vectors_are_accepted():
    vectors, queries = torch.randn(100, 40)[:, ::2], torch.randn(2, 40)[:, 1::2]
    assert torch.equal(search(vectors, queries, 9)[0], in_blocks(vectors, queries, 9)[0])


def test_rows_outside_the_catalogue_mask_nothing():
    masked = mask_rows(torch.zeros(2, 3), torch.tensor([[-1, 0, 3], [2, 2, 99]]))
    assert masked.tolist() == [[-torch.inf, 0, 0], [0, 0, -torch.inf]]
    warmup()


@pytest.mark.parametrize("infinite", [float("inf"), float("-inf")])
def test_infinite_scores_are_ranked(infinite):
    assert top(torch.tensor([[0.0, infinite, 1.0]]), 3)[1].tolist() in ([[1, 2, 0]], [[2, 0, 1]])
