"""Query layout and top k of the scan kernel; `test_exact` compares it with a full sort."""

import numpy as np
import pytest

from shortlist.index.simd_products import LANES
from shortlist.index.topk_kernel import padded_queries, scan


@pytest.mark.parametrize("width", [16, 17, 20, 32, 33])
def test_padded_queries_pair_the_last_step_with_the_last_floats(width):
    queries = np.arange(1, 3 * width + 1, dtype=np.float32).reshape(3, width)
    wide = padded_queries(queries, 4)
    assert wide.shape == (4, -(-width // LANES) * LANES)
    assert not wide[3].any()
    whole = wide.shape[1] - LANES
    vector = np.random.default_rng(0).normal(size=width).astype(np.float32)
    steps = np.concatenate([vector[:whole], vector[-LANES:]])
    np.testing.assert_allclose(wide[:3] @ steps, queries @ vector, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 500])
@pytest.mark.parametrize("n_queries", [1, 2, 5])
def test_scan_finds_the_top_k_for_any_number_of_vectors(count, n_queries):
    rng = np.random.default_rng(count)
    vectors, queries = (rng.integers(-4, 5, (n, 20)).astype(np.float32) for n in (count, n_queries))
    exclude = rng.integers(-1, count, (n_queries, 3))
    k = min(count, 7)
    rows, scores = scan(vectors, queries, k, exclude)
    for query in range(n_queries):
        products = vectors @ queries[query]
        left = [row for row in range(count) if row not in exclude[query]]
        best = sorted(left, key=lambda row, products=products: (-products[row], row))[:k]
        assert rows[query].tolist() == best + [-1] * (k - len(best))
        assert scores[query, : len(best)].tolist() == products[best].tolist()
        assert (scores[query, len(best) :] == -np.inf).all()
