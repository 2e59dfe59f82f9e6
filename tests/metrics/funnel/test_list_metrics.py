"""Columns of the experiment tables: both NDCGs, graded NDCG, and the random ranker."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.list_metrics import graded_ndcg, list_metrics, random_ranker
from shortlist.metrics.ranking import hit_rate, ndcg, ndcg_hits, precision, recall

SCORES = torch.tensor([[0.5, -0.2, 1, 0.3, 0, -1]], dtype=torch.float64)
LABELS = torch.tensor([[4.0, 3, 2, 1, 0, 0]], dtype=torch.float64)


def test_graded_ndcg_of_list_a() -> None:
    """Spec test 7."""
    assert float(graded_ndcg(SCORES, LABELS)) == pytest.approx(0.7341443884, abs=1e-8)
    assert float(graded_ndcg(SCORES, LABELS, gain="linear")) == pytest.approx(0.8444468219, abs=1e-8)


def test_graded_ndcg_ignores_padding_and_places_after_the_cut() -> None:
    padded = (
        torch.cat([SCORES, torch.full((1, 2), 9.0)], dim=1),
        torch.cat([LABELS, torch.full((1, 2), 9.0)], dim=1),
    )
    mask = torch.tensor([[True] * 6 + [False] * 2])
    assert float(graded_ndcg(*padded, mask)) == pytest.approx(0.7341443884, abs=1e-8)
    top = (3 + 15 / np.log2(3)) / (15 + 7 / np.log2(3))
    assert float(graded_ndcg(SCORES, LABELS, k=2)) == pytest.approx(top)
    assert graded_ndcg(SCORES, torch.zeros(1, 6)).isnan().all()


def test_unknown_gain_is_refused() -> None:
    with pytest.raises(ConfigError, match="exponential or linear"):
        graded_ndcg(SCORES, LABELS, gain="square")


def test_binary_graded_ndcg_is_the_ndcg_of_the_ranked_list() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.rand((9, 30), generator=generator), torch.rand((9, 30), generator=generator) < 0.2
    relevant = torch.where(labels, torch.arange(30), -1)
    ranked = scores.argsort(dim=1, descending=True)
    same = ndcg(ranked, relevant, 10).tolist()
    assert graded_ndcg(scores, labels, k=10).tolist() == pytest.approx(same, nan_ok=True)


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_ndcg_of_hits_is_at_least_ndcg(seed: int) -> None:
    """Spec test 32."""
    generator = torch.Generator().manual_seed(seed)
    ranked = torch.rand((8, 40), generator=generator).argsort(dim=1)
    relevant = torch.randint(-1, 60, (8, 6), generator=generator)
    for k in (5, 20, 40):
        assert (ndcg_hits(ranked, relevant, k) >= ndcg(ranked, relevant, k) - 1e-12).all()


def test_single_hit_at_rank_one_gives_one_and_no_hit_gives_zero() -> None:
    """Spec test 32: NDCG_hits = 1, while NDCG of 3 relevant items is smaller."""
    ranked, relevant = torch.tensor([[5, 1, 2], [1, 2, 3]]), torch.tensor([[5, 8, 9], [7, 8, 9]])
    assert ndcg_hits(ranked, relevant, 3).tolist() == [1, 0]
    assert float(ndcg(ranked, relevant, 3)[0]) < 0.5
    assert ndcg_hits(torch.tensor([[1]]), torch.tensor([[-1]]), 1).isnan().all()


def test_hits_out_of_order_lower_ndcg_of_hits() -> None:
    later = ndcg_hits(torch.tensor([[0, 5, 8]]), torch.tensor([[5, 8]]), 3)
    assert float(later) == pytest.approx((1 / np.log2(3) + 0.5) / (1 + 1 / np.log2(3)))


def test_columns_are_those_of_the_ranking_metrics() -> None:
    ranked = torch.rand((20, 60), generator=torch.Generator().manual_seed(1)).argsort(dim=1)
    relevant = torch.randint(-1, 80, (20, 5), generator=torch.Generator().manual_seed(2))
    found = list_metrics(ranked, relevant)
    assert len(found) == 10
    for name, function in (
        ("hit_rate", hit_rate),
        ("recall", recall),
        ("precision", precision),
        ("ndcg", ndcg),
    ):
        assert found[f"{name}@20"].tolist() == pytest.approx(
            function(ranked, relevant, 20).tolist(), nan_ok=True
        )
    hits = ndcg_hits(ranked, relevant, 50).tolist()
    assert found["ndcg_hits@50"].tolist() == pytest.approx(hits, nan_ok=True)


PRINTED = {  # percent: HR@20, R@20, P@20, HR@50, R@50
    10_728: (5.80, 0.19, 0.30, 13.90, 0.47),
    3_500: (16.82, 0.57, 0.91, 37.03, 1.43),
}


@pytest.mark.parametrize(("pool", "printed"), PRINTED.items())
def test_random_ranker_in_closed_form(pool: int, printed: tuple[float, ...]) -> None:
    """Spec test 32 and 4.6: 32 positives."""
    found = random_ranker(torch.tensor([pool]), torch.tensor([32]))
    names = ("hit_rate@20", "recall@20", "precision@20", "hit_rate@50", "recall@50")
    assert [100 * float(found[name]) for name in names] == pytest.approx(printed, abs=0.0051)
    if pool == 3_500:
        assert 100 * float(found["precision@50"]) == pytest.approx(0.914, abs=5e-4)


def test_random_lists_have_the_expected_metrics() -> None:
    """Spec test 32: 2,000 users, pool 3,500, 32 positives, within 3 standard errors, all ten columns."""
    rng = np.random.default_rng(0)
    ranked = torch.as_tensor(rng.random((2000, 3500)).argpartition(50, axis=1)[:, :50])
    ranked = ranked[:, torch.randperm(50, generator=torch.Generator().manual_seed(0))]
    found = list_metrics(ranked, torch.arange(32).expand(2000, 32))
    expected = random_ranker(torch.tensor([3500]), torch.tensor([32]))
    for name, values in found.items():
        error = float(values.std()) / 2000**0.5
        assert abs(float(values.mean() - expected[name])) < 3 * error, name


def test_random_ranker_of_small_pools_equals_enumeration() -> None:
    generator = torch.Generator().manual_seed(4)
    ranked = torch.rand((60_000, 6), generator=generator).argsort(dim=1)
    found = list_metrics(ranked, torch.tensor([[0, 1, 2, 3]]).expand(60_000, 4), ks=(3, 5))
    expected = random_ranker(torch.tensor([6]), torch.tensor([4]), ks=(3, 5))
    for name, values in found.items():
        assert float(values.mean()) == pytest.approx(float(expected[name]), abs=0.006), name


def test_random_ranker_without_positives_or_with_a_small_pool() -> None:
    found = random_ranker(torch.tensor([100, 100]), torch.tensor([0, 100]), ks=(10,))
    assert all(values[0].isnan() for values in found.values())
    assert [float(values[1]) for values in found.values()] == pytest.approx([1, 1, 1, 0.1, 1])
    with pytest.raises(ConfigError, match="lower K"):
        random_ranker(torch.tensor([10]), torch.tensor([2]))
