"""Vectors for tests of indexes: items in groups, and users who like one."""

import torch


def grouped(n_items=1200, asked=12, width=16, seed=0):
    """Items [N, D] around some centres, longer and shorter ones, and queries [B, D] near them."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(max(n_items // 40, 1), width, generator=generator)
    own = torch.randint(len(centres), (n_items,), generator=generator)
    items = centres[own] + 0.5 * torch.randn(n_items, width, generator=generator)
    liked = torch.randint(len(centres), (asked,), generator=generator)
    return items, centres[liked] + 0.3 * torch.randn(asked, width, generator=generator)


def recall(found, truth):
    """The share of `truth` [B, k] that was found."""
    return float((truth[:, :, None] == found[:, None, :]).any(-1).float().mean())
