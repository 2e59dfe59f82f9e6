"""The scan: queries as tiles read them, and nothing kept but the best. `test_exact` holds it against a full sort."""

import numpy as np
import pytest

from shortlist.index.simd_products import LANES
from shortlist.index.topk_kernel import laid, scan


@pytest.mark.parametrize("width", [16, 17, 20, 32, 33])
def test_queries_are_laid_so_that_the_last_step_meets_the_last_floats(width):
    queries = np.arange(1, 3 * width + 1, dtype=np.float32).reshape(3, width)
    wide = laid(queries, 4)
    assert wide.shape == (4, -(-width // LANES) * LANES)
    assert not wide[3].any()
    whole = wide.shape[1] - LANES
    vector = np.random.default_rng(0).normal(size=width).astype(np.float32)
    steps = np.concatenate([vector[:whole], vector[-LANES:]])
    np.testing.assert_allclose(wide[:3] @ steps, queries @ vector, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 500])
@pytest.mark.parametrize("asked", [1, 2, 5])
def test_the_best_are_found_among_any_number_of_vectors(count, asked):
    rng = np.random.default_rng(count)
    vectors, queries = (rng.integers(-4, 5, (n, 20)).astype(np.float32) for n in (count, asked))
    exclude = rng.integers(-1, count, (asked, 3))
    k = min(count, 7)
    rows, scores = scan(vectors, queries, k, exclude)
    for query in range(asked):
        products = vectors @ queries[query]
        left = [row for row in range(count) if row not in exclude[query]]
        best = sorted(left, key=lambda row, products=products: (-products[row], row))[:k]
        assert rows[query].tolist() == best + [-1] * (k - len(best))
        assert scores[query, : len(best)].tolist() == products[best].tolist()
        assert (scores[query, len(best) :] == -np.inf).all()
