"""Tiles of sixteen products, and which of them exceed their thresholds."""

import numpy as np
import pytest
from numba import njit

from shortlist.index.simd_products import LANES, ROUNDS, SIDE, square_tile, tall_tile
from shortlist.index.topk_kernel import padded_queries


@njit
def tall(vectors, row, queries, query, thresholds, out):
    return tall_tile(vectors, row, queries, query, thresholds, out)


@njit
def square(vectors, row, queries, query, thresholds, out):
    return square_tile(vectors, row, queries, query, thresholds, out)


def world(width):
    rng = np.random.default_rng(width)
    return (rng.normal(size=size).astype(np.float32) for size in ((40, width), (8, width)))


def bits(mask):
    return [bool(mask >> lane & 1) for lane in range(LANES)]


@pytest.mark.parametrize("width", [16, 17, 31, 32, 64, 70])
def test_a_tall_tile_equals_the_matrix_product(width):
    vectors, queries = world(width)
    out, thresholds = np.empty(LANES, np.float32), np.zeros((8, LANES), np.float32)
    above = tall(vectors, 3, padded_queries(queries, 1), 5, thresholds, out)
    expected = vectors[3:19] @ queries[5]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    assert bits(above) == (out > 0).tolist()


@pytest.mark.parametrize("width", [16, 17, 64, 70])
def test_a_square_tile_has_the_bits_of_the_tall_tile(width):
    vectors, queries = world(width)
    out, thresholds = np.empty(LANES, np.float32), np.zeros((2, LANES), np.float32)
    above = square(vectors, 8, padded_queries(queries, SIDE), 4, thresholds, out)
    assert bits(above) == (out > 0).tolist()
    alone, zeros = np.empty(LANES, np.float32), np.zeros((8, LANES), np.float32)
    for query in range(SIDE):
        tall(vectors, 8, padded_queries(queries, 1), 4 + query, zeros, alone)
        assert out[query * SIDE : (query + 1) * SIDE].tolist() == alone[:SIDE].tolist()


def test_nan_exceeds_no_threshold():
    vectors = np.full((16, 16), np.nan, np.float32)
    out, thresholds = np.empty(LANES, np.float32), np.full((1, LANES), -np.inf, np.float32)
    assert tall(vectors, 0, padded_queries(np.ones((1, 16), np.float32), 1), 0, thresholds, out) == 0


def test_every_float_of_two_vectors_enters_one_sum_per_round():
    for first, second in ROUNDS:
        assert sorted([*first, *second]) == list(range(2 * LANES))
