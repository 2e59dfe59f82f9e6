"""Post-filtering, compared with a plain sort."""

import numpy as np

from shortlist.index.postfilter import fetch_sizes, postfilter


def empty(count, k):
    return np.full((count, k), 77, np.int64), np.full((count, k), 7, np.float32)


def test_excluded_rows_count_once_and_invalid_rows_do_not_count():
    excluded, sizes, available = fetch_sizes(
        np.zeros((2, 1), np.float32), np.array([[3, -1, 3, 9], [4, 0, 5, 1]]), 3, 5
    )
    assert excluded.tolist() == [[3, 5, 5, 5], [0, 1, 4, 5]]
    assert sizes.tolist() == [4, 5]
    assert available.tolist() == [3, 2]


def test_queries_without_excluded_rows_fetch_k_and_non_finite_queries_fetch_none():
    queries = np.array([[0], [np.nan], [-np.inf], [1]], np.float32)
    assert fetch_sizes(queries, np.empty((4, 0), np.int64), 3, 50)[1].tolist() == [3, 0, 0, 3]
    assert fetch_sizes(queries, np.array([[7], [7], [7], [-1]]), 4, 50)[1].tolist() == [8, 0, 0, 3 + 1]


def test_ties_are_ordered_by_row_and_missing_places_padded():
    best = empty(2, 4)
    found = np.array([[5, -1, 2]]), np.array([[1.0, 9.0, 1.0]], np.float32)
    incomplete = postfilter(found, np.array([1]), np.full((2, 0), 9), np.array([4, 3]), best)
    assert best[0].tolist() == [[77] * 4, [2, 5, -1, -1]]
    assert best[1].tolist() == [[7] * 4, [1, 1, -np.inf, -np.inf]]
    assert incomplete.tolist() == [1]


def test_nan_and_minus_infinity_are_dropped():
    best = empty(1, 3)
    found = np.array([[0, 1, 2]]), np.array([[np.nan, -np.inf, 4.0]], np.float32)
    assert postfilter(found, np.array([0]), np.empty((1, 0), np.int64), np.array([1]), best).tolist() == []
    assert best[0].tolist() == [[2, -1, -1]]


def test_postfilter_equals_a_sort():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(60)[:40] for _ in range(30)])
    products = rng.integers(-4, 4, (30, 40)).astype(np.float32)
    exclude = rng.integers(-5, 70, (30, 20))
    excluded, _, available = fetch_sizes(np.zeros((30, 1), np.float32), exclude, 10, 60)
    best = empty(30, 10)
    incomplete = postfilter((rows, products), np.arange(30), excluded, available, best)
    for query in range(30):
        left = [
            pair for pair in zip(-products[query], rows[query], strict=True) if pair[1] not in exclude[query]
        ]
        expected = sorted(left)[:10]
        assert best[0][query].tolist() == [row for _, row in expected]
        assert best[1][query].tolist() == [-product for product, _ in expected]
        assert (query in incomplete) == (len(left) < 10)
