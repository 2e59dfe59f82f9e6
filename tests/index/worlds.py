"""Clustered item vectors and queries for index tests."""

import torch


def grouped(n_items=1200, n_queries=12, width=16, seed=0):
    """Items [N, D] around cluster centres, and queries [B, D] near some centres."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(max(n_items // 40, 1), width, generator=generator)
    own = torch.randint(len(centres), (n_items,), generator=generator)
    items = centres[own] + 0.5 * torch.randn(n_items, width, generator=generator)
    chosen = torch.randint(len(centres), (n_queries,), generator=generator)
    return items, centres[chosen] + 0.3 * torch.randn(n_queries, width, generator=generator)


def recall(found, expected):
    """Recall of the true top k [B, k]."""
    return float((expected[:, :, None] == found[:, None, :]).any(-1).float().mean())
