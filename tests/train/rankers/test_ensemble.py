"""Greedy weights of several scores on requests."""

import torch

from shortlist.data import Candidates, Query
from shortlist.metrics.ranking import ndcg, recall
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.ensemble import DEPTH, _quality, ensemble


def batch(seed: int, requests: int = 40, width: int = 50) -> RequestBatch:
    generator = torch.Generator().manual_seed(seed)
    items = torch.stack([torch.randperm(200, generator=generator)[:width] for _ in range(requests)])
    targets = torch.randint(-1, 200, (requests, 3), generator=generator)
    targets[:, 0] = items[:, 7]
    found = Candidates.of(items, torch.zeros(items.shape)).keep(
        torch.rand(items.shape, generator=generator) > 0.1
    )
    return RequestBatch(Query.of([[1]] * requests), found, targets)


def noisy(one: RequestBatch, seed: int, noise: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return one.is_target.float() + noise * torch.randn(one.found.shape, generator=generator)


def quality_by_metrics(scores: torch.Tensor, one: RequestBatch) -> float:
    ranked = one.found.score(scores).best(DEPTH)
    items = ranked.items.masked_fill(~ranked.valid, -1)
    values = [metric(items, one.targets, DEPTH).nanmean() for metric in (recall, ndcg)]
    return float(values[0] * values[1])


def test_quality_is_recall_times_ndcg():
    for seed in range(5):
        one = batch(seed)
        distinct = one.targets.sort(dim=1).values
        repeated = (distinct[:, 1:] == distinct[:, :-1]) & (distinct[:, 1:] >= 0)
        one = RequestBatch(
            one.query, one.found, torch.cat([distinct[:, :1], distinct[:, 1:].masked_fill(repeated, -1)], 1)
        )
        scores = noisy(one, seed, 1.0)
        assert abs(_quality([scores], [one]) - quality_by_metrics(scores, one)) < 1e-9


def test_blend_is_better_than_the_best_of_independent_scores_and_never_worse():
    batches = [batch(0), batch(1)]
    scores = [
        torch.stack([noisy(one, 10 * seed + at, noise) for seed, noise in enumerate((1.0, 1.1, 3.0))], -1)
        for at, one in enumerate(batches)
    ]
    weights = ensemble(scores, batches, [True, True, True])
    singles = [_quality([one[..., number] for one in scores], batches) for number in range(3)]
    blended = _quality([(one * weights.float()).sum(-1) for one in scores], batches)
    assert blended > max(singles)
    assert abs(float(weights.sum()) - 1) < 1e-12
    assert min(float(weights[0]), float(weights[1])) > float(weights[2])


def test_useless_and_missing_scores_have_no_weight():
    one = batch(3)
    perfect, constant = one.is_target.float(), torch.zeros(one.found.shape)
    scores = [torch.stack([constant, perfect, perfect], -1)]
    assert ensemble(scores, [one], [True, True, False]).tolist() == [0.0, 1.0, 0.0]


def test_scores_share_the_weight_where_no_target_is_a_candidate():
    one = batch(4)
    nothing = RequestBatch(one.query, one.found, torch.full_like(one.targets, 999))
    scores = [torch.randn((*one.found.shape, 2))]
    assert ensemble(scores, [nothing], [True, True]).tolist() == [0.5, 0.5]
