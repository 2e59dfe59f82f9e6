"""Overlap of the lists of nominators."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.overlap import overlap

NOMINATED = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], bool)


def test_shares_of_common_and_unique_candidates() -> None:
    found = overlap(NOMINATED)
    assert found.shared[:2, :2].tolist() == [[1, 2 / 3], [2 / 3, 1]]
    assert found.jaccard[0, 1] == 2 / 4
    assert found.unique[:2].tolist() == [1 / 3, 1 / 3]
    assert (found.raw, found.distinct) == (6, 4)


def test_nominator_without_candidates_has_no_shares() -> None:
    found = overlap(NOMINATED)
    assert np.isnan(found.unique[2])
    assert np.isnan(found.shared[2]).all()
    assert found.shared[:2, 2].tolist() == [0, 0]


def test_counts_in_place_of_booleans_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected booleans of candidates by nominators \[C, N\]"):
        overlap(np.ones((2, 2)))
