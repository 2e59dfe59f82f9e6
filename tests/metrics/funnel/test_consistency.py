"""Agreement of two stages, against obvious versions, and unbiased on sampled logs."""

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from shortlist.metrics.funnel.cascade import places, top_mask
from shortlist.metrics.funnel.consistency import Sample, rank_biased_overlap, stage_consistency, tau_b


def lists(batch: int, n: int, levels: int = 1000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(0, levels, (batch, n), generator=generator).double()
    return first, first + torch.randint(0, levels, (batch, n), generator=generator)


def slow_rbo(first: list[int], second: list[int], p: float) -> float:
    """Equation 32 of Webber et al. for two orders of the same items."""
    depth = len(first)
    overlap = [len(set(first[:d]) & set(second[:d])) for d in range(1, depth + 1)]
    series = sum(x / d * p**d for d, x in enumerate(overlap, start=1))
    return overlap[-1] / depth * p**depth + (1 - p) / p * series


def test_consistency_equals_the_obvious_versions() -> None:
    first, second = lists(20, 25, levels=8)
    mask = torch.rand((20, 25), generator=torch.Generator().manual_seed(5)) < 0.8
    found = stage_consistency(first, second, 6, mask)
    for row in range(20):
        a, b = first[row][mask[row]], second[row][mask[row]]
        tops = [set(top_mask(one[None], 6)[0].nonzero().ravel().tolist()) for one in (a, b)]
        assert float(found.share_kept[row]) == pytest.approx(len(tops[0] & tops[1]) / 6)
        assert float(found.tau_b[row]) == pytest.approx(kendalltau(a.numpy(), b.numpy()).statistic)
        orders = [places(one[None])[0].argsort().tolist() for one in (a, b)]
        assert float(found.rbo[row]) == pytest.approx(slow_rbo(*orders, 0.9))


def test_equal_orders_agree_fully_and_reversed_ones_do_not() -> None:
    scores = torch.arange(30.0)[None]
    same, reverse = stage_consistency(scores, 2 * scores, 10), stage_consistency(scores, -scores, 10)
    assert [float(one) for one in (same.share_kept, same.tau_b, same.rbo)] == pytest.approx([1, 1, 1])
    assert float(reverse.tau_b) == pytest.approx(-1)
    assert float(reverse.share_kept) == 0
    assert float(reverse.rbo) < 0.2


def test_lists_are_compared_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lists(17, 12)
    whole = tau_b(first, second, torch.ones(17, 12, dtype=torch.bool))
    monkeypatch.setattr("shortlist.metrics.funnel.consistency.PAIRS", 300)
    assert torch.equal(tau_b(first, second, torch.ones(17, 12, dtype=torch.bool)), whole)


def test_weighted_metrics_of_sampled_logs_average_to_those_of_the_full_log() -> None:
    """Strata of 60, 30 and 10 items; 12, 10 and all are logged, with the ranks of the full input."""
    first, second = lists(1, 100, seed=3)
    ranks = places(first), places(second)
    full = stage_consistency(first, second, 40)
    stratum = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    rows = torch.stack([sampled_rows(seed) for seed in range(1500)])  # [samples, logged]
    sample = Sample(torch.tensor([1.0] * 32).where(stratum[rows] == 2, weights(stratum[rows])), stratum[rows])
    own = (first[0][rows], second[0][rows])
    found = stage_consistency(*own, 40, sample=sample, ranks=(ranks[0][0][rows], ranks[1][0][rows]))
    for name in ("share_kept", "tau_b", "rbo"):
        values = getattr(found, name)
        error = float(values.std()) / 1500**0.5
        assert abs(float(values.mean() - getattr(full, name))) < 4 * error + 0.01, name


def sampled_rows(seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(60, 12, replace=False), 60 + rng.choice(30, 10, replace=False), np.arange(90, 100)]
    return torch.as_tensor(np.sort(np.concatenate(drawn)))


def weights(stratum: torch.Tensor) -> torch.Tensor:
    return torch.tensor([5.0, 3.0, 1.0])[stratum]


def test_pairs_of_one_stratum_have_their_joint_inclusion_probability() -> None:
    """Two of three items are logged: every pair has probability 1/3, not 4/9; the sums over samples are exact."""
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])
    sample = Sample(torch.full((1, 2), 1.5), torch.zeros(1, 2))
    pairs = [
        tau_b(first[None, rows], second[None, rows], torch.ones(1, 2, dtype=torch.bool), sample)
        for rows in ([0, 1], [0, 2], [1, 2])
    ]
    assert sum(map(float, pairs)) / 3 == pytest.approx(kendalltau(first, second).statistic)


def test_ranks_are_estimated_from_weights_without_logged_ranks() -> None:
    scores = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    sample = Sample(torch.tensor([[1.0, 1.0, 10.0, 10.0]]), torch.tensor([[1, 1, 0, 0]]))
    other = torch.tensor([[3.0, 4.0, 1.0, 2.0]])
    assert float(stage_consistency(scores, other, 2, sample=sample).share_kept) == 1
    assert float(stage_consistency(scores, other, 3, sample=sample).share_kept) == pytest.approx(2 / 12)


def test_rank_biased_overlap_looks_at_the_top_first() -> None:
    order = torch.arange(1.0, 21)[None]
    top, bottom = order.clone(), order.clone()
    top[0, :2], bottom[0, -2:] = torch.tensor([2.0, 1.0]), torch.tensor([20.0, 19.0])
    ones = torch.ones(1, 20, dtype=torch.float64)
    assert float(rank_biased_overlap(order, top, ones)) < float(rank_biased_overlap(order, bottom, ones)) < 1


def test_no_requests_have_no_consistency() -> None:
    empty = torch.zeros(0, 5)
    found = stage_consistency(empty, empty, 2)
    assert [len(found.share_kept), len(found.tau_b), len(found.rbo)] == [0, 0, 0]
