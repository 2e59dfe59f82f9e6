"""Weighted pairs of two classes, counted without listing them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.metrics.funnel.pair_counts import placements
from shortlist.metrics.two_samples import auc


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_placements_equal_the_comparison_of_all_pairs(seed: int, n: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    scores, positive = rng.integers(0, 6, n).astype(float), rng.random(n) < 0.4
    weight, group = rng.random(n) + 0.5, rng.integers(0, groups, n)
    found = placements(scores, positive, weight, group)
    for row in range(n):
        other = (group == group[row]) & (positive != positive[row])
        above = scores[row] - scores[other] if positive[row] else scores[other] - scores[row]
        right = (
            weight[other] @ ((above > 0) + 0.5 * (above == 0)) / weight[other].sum()
            if other.any()
            else np.nan
        )
        assert found.share[row] == pytest.approx(right, nan_ok=True)
    for number in range(group.max() + 1):
        own = group == number
        pairs = weight[own & positive].sum() * weight[own & ~positive].sum()
        assert found.pairs[number] == pytest.approx(pairs)


def test_mean_placement_of_either_class_is_the_auc() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(500) < 0.3
    scores = rng.normal(size=500) + positive
    share = placements(scores, positive, np.ones(500), np.zeros(500, np.int64)).share
    assert share[positive].mean() == pytest.approx(auc(scores, positive))
    assert share[~positive].mean() == pytest.approx(auc(scores, positive))
