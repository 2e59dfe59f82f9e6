"""A split of a budget by clusters of users, by the features that a gate reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor

from shortlist.data import Query
from shortlist.metrics.nomination.allocate import allocate
from shortlist.nominate import Split
from shortlist.nominate.split_gate import SplitGate
from shortlist.train.context import RequestBatch
from shortlist.train.split.learn import SplitRule, lists_in
from shortlist.train.split.ranks import ranks_in_pool

CLUSTERS = 4  # as many as segments by length of history


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSplit(Split):
    """A split with the limits of the cluster that is nearest to a request."""

    features: SplitGate = field(kw_only=True)
    centres: Tensor = field(kw_only=True)  # [G, F]

    def segments(self, query: Query) -> Tensor:
        return torch.cdist(self.features.features(query), self.centres).argmin(1)


def cluster_split(
    batches: Sequence[RequestBatch], features: SplitGate, names: Sequence[str], budget: int, seed: int
) -> ClusterSplit:
    """Limits learned for each cluster of users, shrunk to those of all like the segments by length of history."""
    described = torch.cat([features.features(one.query) for one in batches])
    found, _ = kmeans2(described.double().numpy(), CLUSTERS, minit="++", seed=seed)
    centres = torch.from_numpy(found).float()
    nearest = torch.cdist(described, centres).argmin(1).numpy()
    ranks, rule = ranks_in_pool(batches, names), SplitRule()
    limits = allocate(
        ranks.rank,
        budget,
        segments=nearest[ranks.request],
        n_segments=CLUSTERS,
        weights=ranks.weights,
        block=rule.block,
        floor=min(rule.floor, budget // len(names)),
        shrink=rule.shrink,
        lists=lists_in(batches, names, nearest, CLUSTERS),
    ).limits
    rows = tuple(map(tuple, limits.tolist()))
    history = tuple(range(1, CLUSTERS))  # as many rows of limits as clusters; lengths are not read
    return ClusterSplit(tuple(names), rows, history, features=features, centres=centres, k=budget)
