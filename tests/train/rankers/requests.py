"""Requests with out-of-fold candidates that rankers are tested on."""

import torch

from shortlist.data import Candidates, Dataset, Query
from shortlist.train.context import RequestBatch, TrainContext


def context_of(world: Dataset, batches: int = 10) -> TrainContext:
    """Requests whose targets are the first candidates of the nominator `n`."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(batches):
        items = torch.stack([torch.randperm(len(world.items), generator=generator)[:30] for _ in range(16)])
        order = torch.rand(16, 30, generator=generator).argsort(1)
        ranks = order.argsort(1).float()
        columns = {"n.rank": ranks, "n.score": -ranks}
        found = Candidates.of(items, torch.zeros(16, 30), columns)
        history = torch.randint(0, len(world.items), (16, 6), generator=generator).tolist()
        made.append(RequestBatch(Query.of(history), found, items.masked_fill(ranks >= 5, -1)))
    return TrainContext(world.split().train, world.catalog, batches=tuple(made))


def share_right(stage, context: TrainContext) -> float:
    """How often a target ranks first, in a validation batch."""
    one = context.batches[4]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    return float(one.is_target.gather(1, best).float().mean())
