"""Coverage, Gini and novelty on catalogues small enough to count."""

import math

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.coverage import coverage, gini, novelty


def test_coverage_counts_each_shown_item_once() -> None:
    ranked = torch.tensor([[0, 1, 9], [1, -1, 9]])
    assert coverage(ranked, 10, 2) == pytest.approx(2 / 10)
    assert coverage(ranked, 10, 3) == pytest.approx(3 / 10)


def test_gini_is_zero_for_uniform_exposure() -> None:
    assert gini(torch.tensor([[0, 1], [2, 3]]), 4, 2) == pytest.approx(0)


def test_gini_of_a_single_shown_item_is_one_minus_one_over_n() -> None:
    assert gini(torch.tensor([[2], [2], [2]]), 4, 1) == pytest.approx(1 - 1 / 4)


def test_gini_equals_the_mean_difference_of_all_pairs() -> None:
    ranked = torch.tensor([[0, 1, 2], [0, 1, -1], [0, 4, 2]])
    shown = [3, 2, 2, 0, 1]
    pairs = sum(abs(a - b) for a in shown for b in shown)
    assert gini(ranked, 5, 3) == pytest.approx(pairs / (2 * 5 * sum(shown)))


def test_gini_without_shown_items_is_nan() -> None:
    assert math.isnan(gini(torch.full((2, 3), -1), 4, 3))


def test_novelty_is_mean_self_information_of_shown_items() -> None:
    popularity = torch.tensor([8, 4, 1, 0])
    ranked = torch.tensor([[0, 1, 2], [1, -1, -1], [3, -1, -1], [-1, -1, -1]])
    values = novelty(ranked, popularity, 8, 3)
    assert values[:3].tolist() == pytest.approx([(0 + 1 + 3) / 3, 1, 3])
    assert math.isnan(values[3])


def test_items_outside_the_catalogue_and_invalid_k_are_refused() -> None:
    with pytest.raises(DataError, match="item row 7 is outside the catalogue of 5 items"):
        coverage(torch.tensor([[7]]), 5, 1)
    with pytest.raises(ConfigError, match="must be positive"):
        gini(torch.tensor([[1]]), 5, 0)
