"""What is left of what was found, held against a sort."""

import numpy as np

from shortlist.index.postfilter import prepared, sift


def empty(count, k):
    return np.full((count, k), 77, np.int64), np.full((count, k), 7, np.float32)


def test_rows_to_exclude_count_once_and_rows_that_are_none_not_at_all():
    met, sizes, wanted = prepared(np.zeros((2, 1), np.float32), np.array([[3, -1, 3, 9], [4, 0, 5, 1]]), 3, 5)
    assert met.tolist() == [[3, 5, 5, 5], [0, 1, 4, 5]]
    assert sizes.tolist() == [4, 5]
    assert wanted.tolist() == [3, 2]


def test_who_excludes_nothing_asks_for_no_more_and_who_is_no_number_for_nothing():
    queries = np.array([[0], [np.nan], [-np.inf], [1]], np.float32)
    assert prepared(queries, np.empty((4, 0), np.int64), 3, 50)[1].tolist() == [3, 0, 0, 3]
    assert prepared(queries, np.array([[7], [7], [7], [-1]]), 4, 50)[1].tolist() == [8, 0, 0, 3 + 1]


def test_equal_products_are_ordered_by_row_and_missing_places_filled():
    best = empty(2, 4)
    found = np.array([[5, -1, 2]]), np.array([[1.0, 9.0, 1.0]], np.float32)
    lacking = sift(found, np.array([1]), np.full((2, 0), 9), np.array([4, 3]), best)
    assert best[0].tolist() == [[77] * 4, [2, 5, -1, -1]]
    assert best[1].tolist() == [[7] * 4, [1, 1, -np.inf, -np.inf]]
    assert lacking.tolist() == [1]


def test_what_is_no_number_is_not_found():
    best = empty(1, 3)
    found = np.array([[0, 1, 2]]), np.array([[np.nan, -np.inf, 4.0]], np.float32)
    assert sift(found, np.array([0]), np.empty((1, 0), np.int64), np.array([1]), best).tolist() == []
    assert best[0].tolist() == [[2, -1, -1]]


def test_what_is_left_is_what_a_sort_leaves():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(60)[:40] for _ in range(30)])
    products = rng.integers(-4, 4, (30, 40)).astype(np.float32)
    exclude = rng.integers(-5, 70, (30, 20))
    met, _, wanted = prepared(np.zeros((30, 1), np.float32), exclude, 10, 60)
    best = empty(30, 10)
    lacking = sift((rows, products), np.arange(30), met, wanted, best)
    for query in range(30):
        left = [
            one for one in zip(-products[query], rows[query], strict=True) if one[1] not in exclude[query]
        ]
        expected = sorted(left)[:10]
        assert best[0][query].tolist() == [row for _, row in expected]
        assert best[1][query].tolist() == [-product for product, _ in expected]
        assert (query in lacking) == (len(left) < 10)
