"""A small world of outcomes in which every item has its own logistic weights."""

import torch

from shortlist.models.mixture import Gate, PoolMixture, TwoTowerExperts, feature_subsets
from shortlist.train.pools import Triples

A, D, N = 12, 6, 3


def outcomes(per_item: int = 60, seed: int = 0) -> Triples:
    """Outcomes 0 or 1 of every item in so many contexts."""
    weights = torch.randn(A, D, generator=torch.Generator().manual_seed(17))
    generator = torch.Generator().manual_seed(seed)
    contexts = torch.randn(per_item * A, D, generator=generator)
    items = torch.arange(A).repeat(per_item)
    chance = ((contexts * weights[items]).sum(1) - 1).sigmoid()
    return Triples.of(contexts, items, (torch.rand(len(items), generator=generator) < chance).float())


def mixture(kind: str = "item", seed: int = 0, **settings: object) -> PoolMixture:
    """An untrained mixture for that world."""
    torch.manual_seed(seed)
    experts = TwoTowerExperts(feature_subsets(D, N, 4, seed=seed), A, 4)
    return PoolMixture(experts, Gate(kind, N, A, D), **settings)  # type: ignore[arg-type]
