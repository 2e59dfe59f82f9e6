"""Metrics against cases worked out by hand, properties, a slow oracle and an independent library."""

import math
from collections.abc import Callable

import ir_measures
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.metrics import ranking as metrics
from shortlist.metrics.ranking import (
    METRICS,
    Relevant,
    average_precision,
    f1,
    hit_rate,
    mrr,
    ndcg,
    ndcg_hits,
    precision,
    recall,
)

ITEMS = 12


def rows(*lists: list[int]) -> Tensor:
    widest = max(len(one) for one in lists)
    filled = [one + [-1] * (widest - len(one)) for one in lists]
    return torch.tensor(filled, dtype=torch.int64).reshape(len(lists), widest)


def slow(name: str, ranked: list[int], relevant: list[int], k: int) -> float:
    """The definition in plain sets, one user at a time."""
    expected_items = {item for item in relevant if item >= 0}
    if not expected_items:
        return math.nan
    counted: set[int] = set()
    hits = []
    for item in ranked[:k]:
        hits.append(item in expected_items and item not in counted)
        counted.add(item)
    found = sum(hits)
    gains = [hit / math.log2(place + 2) for place, hit in enumerate(hits)]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(expected_items), k)))
    first = hits.index(True) + 1 if found else math.inf
    order = sum(1 / math.log2(place + 2) for place in range(found))
    ap = sum(hit * sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits))
    p, r = found / k, found / len(expected_items)
    return {
        "precision": p,
        "recall": r,
        "f1": 2 * p * r / (p + r) if found else 0.0,
        "hit_rate": float(found > 0),
        "ndcg": sum(gains) / ideal,
        "ndcg_hits": sum(gains) / order if found else 0.0,
        "mrr": 1 / first,
        "map": ap / min(len(expected_items), k),
    }[name]


def one(
    metric: Callable[[Tensor, Tensor, int], Tensor], ranked: list[int], relevant: list[int], k: int
) -> float:
    return float(metric(rows(ranked), rows(relevant), k)[0])


def test_a_case_worked_out_by_hand() -> None:
    ranked, relevant = [5, 3, 9, 1], [3, 1, 7]  # hits at places 2 and 4, three relevant
    assert one(precision, ranked, relevant, 4) == pytest.approx(2 / 4)
    assert one(recall, ranked, relevant, 4) == pytest.approx(2 / 3)
    assert one(f1, ranked, relevant, 4) == pytest.approx(2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3))
    assert one(hit_rate, ranked, relevant, 4) == 1
    assert one(mrr, ranked, relevant, 4) == pytest.approx(1 / 2)
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    assert one(ndcg, ranked, relevant, 4) == pytest.approx(gained / (1 + 1 / math.log2(3) + 1 / 2))
    assert one(average_precision, ranked, relevant, 4) == pytest.approx((1 / 2 + 2 / 4) / 3)


def test_ndcg_of_the_hits_divides_by_the_best_order_of_the_hits_found():
    ranked, relevant = [5, 3, 9, 1], [3, 1, 7]  # hits at places 2 and 4
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    assert one(ndcg_hits, ranked, relevant, 4) == pytest.approx(gained / (1 + 1 / math.log2(3)))
    assert one(ndcg_hits, [3, 5, 9], [3, 1, 7], 3) == 1  # spec test 32: a single hit at place 1
    assert one(ndcg_hits, [3, 5, 1], [3, 1, 7], 3) < 1  # one more hit lowers it
    assert one(ndcg, [3, 5, 1], [3, 1, 7], 3) > one(ndcg, [3, 5, 9], [3, 1, 7], 3)


def test_items_below_the_cut_do_not_count() -> None:
    assert one(recall, [5, 3, 9, 1], [3, 1, 7], 3) == pytest.approx(1 / 3)
    assert one(hit_rate, [5, 3], [3], 1) == 0
    assert one(mrr, [5, 3], [3], 1) == 0


@pytest.mark.parametrize("name", METRICS)
def test_perfect_ranking_scores_one_when_k_equals_the_relevant_count(name: str) -> None:
    assert one(METRICS[name], [1, 2, 3], [3, 2, 1], 3) == pytest.approx(1)


@pytest.mark.parametrize("name", ["ndcg", "map", "mrr", "hit_rate", "precision"])
def test_perfect_top_k_scores_one_with_more_than_k_relevant_items(name: str) -> None:
    assert one(METRICS[name], [1, 2], [4, 3, 2, 1], 2) == pytest.approx(1)


def test_repeated_hit_counts_once_and_occupies_its_places() -> None:
    assert one(recall, [3, 3, 3], [3, 4], 3) == pytest.approx(1 / 2)
    assert one(precision, [3, 3, 3], [3, 4], 3) == pytest.approx(1 / 3)
    assert one(recall, [3, 4], [3, 3, 3, 4], 2) == 1


@pytest.mark.parametrize("name", METRICS)
def test_a_user_without_truth_has_no_value(name: str) -> None:
    values = METRICS[name](rows([1, 2], [1, 2]), rows([], [1]), 2)
    assert math.isnan(values[0])
    assert not math.isnan(values[1])
    assert METRICS[name](rows([1, 2]), torch.empty((1, 0), dtype=torch.int64), 2).isnan().all()


@pytest.mark.parametrize("name", METRICS)
def test_an_empty_ranking_scores_nothing(name: str) -> None:
    assert one(METRICS[name], [-1, -1], [1], 2) == 0
    assert one(METRICS[name], [], [1], 2) == 0
    assert METRICS[name](
        torch.empty((0, 3), dtype=torch.int64), torch.empty((0, 2), dtype=torch.int64), 2
    ).shape == (0,)


def test_a_short_ranking_is_measured_as_if_filled_with_misses() -> None:
    for name, metric in METRICS.items():
        assert one(metric, [1, 2], [2], 5) == pytest.approx(one(metric, [1, 2, -1, -1, -1], [2], 5)), name


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="k must be a positive integer"):
        recall(rows([1]), rows([1]), 0)
    with pytest.raises(ConfigError, match="of the same users"):
        recall(rows([1]), rows([1], [2]), 1)


item = st.integers(-1, ITEMS - 1)
case = st.tuples(st.lists(item, max_size=9), st.lists(item, max_size=6))


@settings(deadline=None)
@given(st.lists(case, min_size=1, max_size=4), st.integers(1, 11))
def test_every_metric_equals_the_slow_definition(cases: list[tuple[list[int], list[int]]], k: int) -> None:
    ranked, relevant = rows(*(c[0] for c in cases)), rows(*(c[1] for c in cases))
    for name, metric in METRICS.items():
        expected = [slow(name, *c, k) for c in cases]
        np.testing.assert_allclose(metric(ranked, relevant, k).numpy(), expected, rtol=1e-12, err_msg=name)


ranking = st.permutations(range(ITEMS))
relevant_items = st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=6)


@settings(deadline=None)
@given(ranking, relevant_items, st.integers(1, ITEMS), st.integers(1, ITEMS - 1))
def test_moving_a_relevant_item_up_never_lowers_a_metric(
    ranked: list[int], relevant: list[int], k: int, at: int
) -> None:
    if ranked[at] not in relevant or ranked[at - 1] in relevant:
        return
    better = [*ranked[: at - 1], ranked[at], ranked[at - 1], *ranked[at + 1 :]]
    for name, metric in METRICS.items():
        if name == "ndcg_hits" and at == k:  # one more hit
            continue
        assert one(metric, better, relevant, k) >= one(metric, list(ranked), relevant, k) - 1e-12, name


@settings(deadline=None)
@given(ranking, relevant_items, st.integers(1, ITEMS), st.randoms(use_true_random=False))
def test_values_lie_in_0_1_and_the_order_of_relevant_items_does_not_matter(
    ranked, relevant, k, random
) -> None:  # type: ignore[no-untyped-def]
    mixed = random.sample(relevant, len(relevant))
    for name, metric in METRICS.items():
        value = one(metric, list(ranked), relevant, k)
        assert 0 <= value <= 1, name
        assert value == one(metric, list(ranked), mixed, k), name


def test_an_independent_library_agrees() -> None:
    rng = np.random.default_rng(5)
    users, n_items, k = 60, 80, 10
    ranked = np.argsort(rng.random((users, n_items)), axis=1)[:, :30]
    relevant = [
        sorted(rng.choice(n_items, rng.integers(1, 25), replace=False).tolist()) for _ in range(users)
    ]
    qrels = [ir_measures.Qrel(str(u), str(i), 1) for u in range(users) for i in relevant[u]]
    run = [
        ir_measures.ScoredDoc(str(u), str(i), -float(p))
        for u in range(users)
        for p, i in enumerate(ranked[u])
    ]
    names = {
        "precision": ir_measures.P @ k,
        "recall": ir_measures.R @ k,
        "hit_rate": ir_measures.Success @ k,
        "ndcg": ir_measures.nDCG @ k,
        "mrr": ir_measures.RR @ k,
        "map": ir_measures.AP @ k,
    }
    theirs = {
        (one.query_id, str(one.measure)): one.value
        for one in ir_measures.iter_calc(list(names.values()), qrels, run)
    }
    for name, measure in names.items():
        ours = METRICS[name](torch.from_numpy(ranked), rows(*relevant), k).numpy()
        if name == "map":  # their AP@k divides by R, ours by min(R, k)
            sizes = np.array([len(one) for one in relevant])
            ours = ours * np.minimum(sizes, k) / sizes
        np.testing.assert_allclose(
            ours, [theirs[str(u), str(measure)] for u in range(users)], atol=1e-6, err_msg=name
        )


def test_t26_duplicates_empty_intersections_and_long_cuts() -> None:
    ranked, relevant = torch.tensor([[3, 3, 5]]), torch.tensor([[5, 5, 9, -1]])
    assert metrics.recall(ranked, relevant, 3).tolist() == [0.5]  # 5 of the set {5, 9}
    assert metrics.precision(ranked, relevant, 10).tolist() == [0.1]  # three places of ten are filled
    assert metrics.f1(ranked, torch.tensor([[7]]), 3).tolist() == [0.0]
    assert metrics.list_recall(ranked, relevant, 3, torch.tensor([3])).tolist() == [
        1 / 3
    ]  # 5 occurs in two events


def test_metrics_that_share_their_hits_have_the_values_they_have_alone():
    generator = torch.Generator().manual_seed(0)
    ranked = torch.randint(-1, 30, (50, 12), generator=generator)
    relevant = torch.randint(-1, 30, (50, 6), generator=generator)
    relevant[:3] = -1
    together = Relevant.of(relevant).metrics(ranked, list(METRICS), (1, 5, 20))
    assert len(together) == 3 * len(METRICS)
    for name, values in together.items():
        word, _, cut = name.partition("@")
        assert torch.equal(values.nan_to_num(-1), METRICS[word](ranked, relevant, int(cut)).nan_to_num(-1))
