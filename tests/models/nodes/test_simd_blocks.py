"""SIMD blocks equal plain matrix products, at any position."""

import numba
import numpy as np
import pytest

from shortlist.models.nodes.simd_blocks import LANES, ROWS, attend_block, product_block


@numba.njit
def product(left, start, right, row, lane, out):
    product_block(left, start, right, row, lane, out)


@numba.njit
def attend(left, start, right, row, lane, weight, slope, out):
    attend_block(left, start, right, row, lane, weight, slope, out)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("inner", [1, 2, 25])
def test_product_block_writes_its_block_only(inner):
    left, start, right = numbers(ROWS + 3, inner + 2)[:, 1:-1], numbers(ROWS + 3), numbers(inner, LANES + 9)
    out = np.full((ROWS + 3, LANES + 9), 7, np.float32)
    product(left, start, right, 2, 5, out)
    oracle = start[2 : 2 + ROWS, None] + left[2 : 2 + ROWS] @ right[:, 5 : 5 + LANES]
    np.testing.assert_allclose(out[2 : 2 + ROWS, 5 : 5 + LANES], oracle, atol=1e-5)
    out[2 : 2 + ROWS, 5 : 5 + LANES] = 7
    assert (out == 7).all()


@pytest.mark.parametrize("slope", [-1.0, 0.25, 3.0])
def test_attend_block_adds_weighted_prelus(slope):
    left, start, right = numbers(ROWS + 3, 6), numbers(ROWS + 3), numbers(6, LANES + 9)
    weight, out = numbers(ROWS + 3, seed=1), numbers(LANES + 9, seed=2)
    before = out.copy()
    attend(left, start, right, 1, 4, weight, np.float32(slope), out)
    x = start[1 : 1 + ROWS, None] + left[1 : 1 + ROWS] @ right[:, 4 : 4 + LANES]
    before[4 : 4 + LANES] += weight[1 : 1 + ROWS] @ np.where(x > 0, x, slope * x)
    np.testing.assert_allclose(out, before, atol=1e-5)
