"""Precision and recall of the lists of every cell."""

import torch
from torch import Tensor

from shortlist.lab.experiments.components.pools.cells import CellModel, Parameters
from shortlist.lab.experiments.components.pools.data import TEST, TRAIN, SeedTables
from shortlist.simulate.labels import best_quality, slate_quality

K = 5
BEST_KNOWN = "best by all features"
LARGEST = 40_000_000  # numbers of the largest tensor of a part


def mean_quality(
    model: CellModel, parameters: Parameters, tables: SeedTables, part: int, k: int = K, mode: str = "mixture"
) -> tuple[Tensor, Tensor]:
    """Mean precision and recall over the rows of a part [S, L]."""
    features, labels = tables.features[part], tables.labels[part]
    cells = parameters["items"].shape[2] * len(features)
    size = max(1, LARGEST // (cells * tables.arms * model.n_experts))
    total = None
    for start in range(0, features.shape[1], size):
        x, true = features[:, start : start + size], labels[:, start : start + size, None]
        scores = model.mixture(parameters, x) if mode == "mixture" else nominated(model, parameters, x, k)
        found = slate_quality(scores.transpose(1, 2), true.transpose(1, 2), k)  # [S, L, R]
        sums = torch.stack([found.precision.sum(-1), found.recall.sum(-1)])
        total = sums if total is None else total + sums
    assert total is not None
    precision, recall = total / features.shape[1]
    return precision, recall


def nominated(model: CellModel, parameters: Parameters, x: Tensor, k: int) -> Tensor:
    """Mixture means of the items that some expert nominates, as `nominate` does, others below all [S, R, L, A].

    An expert nominates the k items with the largest product of weight and prediction among those of its pool.
    """
    gate, outcomes = model.every(parameters, x)  # [S, R, L, A, N]
    weighted = (gate * outcomes.clamp(min=0)).masked_fill(gate == 0, -torch.inf)
    best = weighted.topk(min(k, weighted.shape[3]), dim=3)
    chosen = torch.zeros_like(weighted, dtype=torch.bool).scatter(3, best.indices, best.values > -torch.inf)
    return (gate * outcomes).sum(-1).masked_fill(~chosen.any(-1), -torch.inf)


def references(tables: SeedTables) -> dict[str, Tensor]:
    """Precision and recall [S, 2] of the most frequent labels, of the best scores and of perfect ones."""
    labels = tables.labels[TEST]
    popular = tables.labels[TRAIN].float().mean(1, keepdim=True).expand(labels.shape)
    found = {"popularity": slate_quality(popular, labels, K), "ceiling": best_quality(labels, K)}
    values = {name: torch.stack(one.means, 1).cpu() for name, one in found.items()}
    return values if tables.known is None else {**values, BEST_KNOWN: tables.known}
