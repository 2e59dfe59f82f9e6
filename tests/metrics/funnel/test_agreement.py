"""Order of labels against the order of true worth, by pair of stages, and ratios of stages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from shortlist.metrics.funnel.agreement import stage_ratio, theorem1_agreement


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_agreement_equals_the_comparison_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reached, request = rng.integers(0, 4, 40), rng.integers(0, 3, 40) * 1_000_000_007
    label = np.where(reached == 3, rng.choice([2.0, 4.0], 40), reached)  # a shown negative as low as S = 2
    worth, weight = rng.integers(0, 5, 40) / 4, rng.random(40) + 0.5
    for cell in theorem1_agreement(reached, label, worth, request, weight):
        pairs, agree = slow_cell(cell.lower, cell.higher, reached, label, worth, request, weight)
        assert cell.pairs == pytest.approx(pairs)
        assert cell.agree == pytest.approx(agree / pairs)


def slow_cell(low, high, reached, label, worth, request, weight):  # type: ignore[no-untyped-def]
    pairs = agree = 0.0
    for a in np.flatnonzero(reached == low):
        for b in np.flatnonzero((reached == high) & (request == request[a])):
            if label[a] != label[b]:
                order = np.sign(label[b] - label[a]) * np.sign(worth[b] - worth[a])
                pairs += weight[a] * weight[b]
                agree += weight[a] * weight[b] * (1 + order) / 2
    return pairs, agree


def test_every_pair_of_stages_has_a_cell() -> None:
    reached = np.array([0, 1, 2, 4])
    cells = theorem1_agreement(
        reached, reached.astype(float), np.array([0.1, 0.2, 0.3, 0.0]), np.zeros(4, int)
    )
    agree = {(cell.lower, cell.higher): cell.agree for cell in cells}
    assert agree == {(0, 1): 1, (0, 2): 1, (0, 4): 0, (1, 2): 1, (1, 4): 0, (2, 4): 0}


def test_ladder_with_shown_negatives_below_may_agree_where_the_default_does_not() -> None:
    """Spec 2.5: the label of shown negatives may lie below that of items dropped by the last stage."""
    reached, worth = np.array([2, 3, 3]), np.array([0.5, 0.1, 0.9])
    default = theorem1_agreement(reached, np.array([2.0, 3, 4]), worth, np.zeros(3, int))
    lowered = theorem1_agreement(reached, np.array([2.0, 1, 4]), worth, np.zeros(3, int))
    assert (default[0].agree, lowered[0].agree) == (0.5, 1.0)


BINORMAL = {0.5: (1.00, 0), 0.7: (1.51, 0.39), 0.8: (2.47, 0.62), 0.9: (5.11, 0.81), 0.95: (9.17, 0.90)}


@pytest.mark.parametrize(("area", "expected"), BINORMAL.items())
def test_ratios_of_the_binormal_model(area: float, expected: tuple[float, float]) -> None:
    """Spec 2.4: pass rate 1/6; ratio of mean p and share of pairs with a ratio of at least 2."""
    n, rng = 60_000, np.random.default_rng(0)
    shift = 2**0.5 * norm.ppf(area)
    passed = np.arange(n) % 6 == 0
    x = rng.normal(size=n) + shift * passed
    p = 1 / (1 + 5 * np.exp(-(shift * x - shift**2 / 2)))
    found = stage_ratio(p, passed.astype(np.int64), 1, np.zeros(n, int), bound=2)
    assert found.of_means == pytest.approx(expected[0], rel=0.03)
    assert found.share_at_least == pytest.approx(expected[1], abs=0.012)


def test_share_of_ratios_within_the_bound() -> None:
    values, reached = np.array([1.0, 3.0, 8.0]), np.array([2, 1, 1])
    found = stage_ratio(values, reached, 2, np.zeros(3, int), bound=4)
    assert (found.share_at_least, found.share_within, found.pairs) == (0, 0.5, 2)
    assert found.of_means == pytest.approx(1 / 5.5)
    assert np.isnan(stage_ratio(values, reached, 4, np.zeros(3, int), bound=4).of_means)
