"""Weights of several scores by greedy selection on requests (ensemble selection; Caruana et al., 2004).

The best single score has the first votes. Then votes are added one at a time, each to the score that improves the sum
most, until none does. So the blend is never worse on these requests than the best of its scores.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.train.context import RequestBatch

DEPTH = 20
FIRST_VOTES = 4  # of the best single score
VOTES = 24  # added at most


@torch.no_grad()
def ensemble(scores: Sequence[Tensor], batches: Sequence[RequestBatch], usable: Sequence[bool]) -> Tensor:
    """Weights [C] with sum 1 of standardised scores [B, K, C] by recall@20 times NDCG@20.

    Only `usable` components get a weight. Without a request that has a target among its candidates they share it.
    """
    allowed = [number for number, one in enumerate(usable) if one]
    votes = torch.zeros(len(usable), dtype=torch.float64)
    singles = [_quality([one[..., number] for one in scores], batches) for number in allowed]
    if not singles or max(singles) <= 0:
        votes[allowed] = 1.0
        return votes / votes.sum()
    best, first = max(singles), allowed[singles.index(max(singles))]
    votes[first] = FIRST_VOTES
    total = [FIRST_VOTES * one[..., first] for one in scores]
    for _ in range(VOTES):
        found = [
            _quality([sums + one[..., number] for sums, one in zip(total, scores, strict=True)], batches)
            for number in allowed
        ]
        if max(found) <= best:
            break
        best, added = max(found), allowed[found.index(max(found))]
        votes[added] += 1
        total = [sums + one[..., added] for sums, one in zip(total, scores, strict=True)]
    return votes / votes.sum()


def _quality(scores: Sequence[Tensor], batches: Sequence[RequestBatch]) -> float:
    """Recall@20 times NDCG@20, means over the requests with targets: a gain in percent of either counts the same."""
    totals, count = torch.zeros(2, dtype=torch.float64), 0
    for one, own in zip(batches, scores, strict=True):
        order = own.masked_fill(~one.found.valid, -torch.inf).topk(min(DEPTH, own.shape[1]), dim=1).indices
        hits = one.is_target.gather(1, order).double()  # [B, <= 20]
        relevant = (one.targets >= 0).sum(1)
        gains = 1 / torch.log2(torch.arange(DEPTH, dtype=torch.float64) + 2)
        ideal = gains.cumsum(0)[relevant.clamp(1, DEPTH) - 1]
        recall, ndcg = hits.sum(1) / relevant.clamp(min=1), hits @ gains[: hits.shape[1]] / ideal
        totals += torch.stack([recall, ndcg])[:, relevant > 0].sum(1)
        count += int((relevant > 0).sum())
    return float((totals / max(count, 1)).prod())
