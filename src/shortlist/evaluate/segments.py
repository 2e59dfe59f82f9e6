"""Segments of held-out requests: by length of history, new users, popularity of the relevant items."""

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions

ACTIVE = 0.5  # share of users, those with the longer histories, in the segment "active"


def segments(held_out: HeldOut, train: Interactions) -> dict[str, Tensor]:
    """Masks over requests: by length of history, by new users, and by popularity of the relevant items.

    Popular items are the smallest set of the most frequent ones that has half of the training events.
    """
    lengths = torch.from_numpy(held_out.history_lengths().copy())
    active = lengths >= torch.quantile(lengths.double(), ACTIVE)
    relevant = held_out.relevant()
    popular = _popular(train)[relevant.clamp(min=0)] & (relevant >= 0)
    share = popular.sum(1) / (relevant >= 0).sum(1).clamp(min=1)
    return {
        "active": active,
        "few events": ~active,
        "new users": torch.from_numpy(np.isin(held_out.users, train.users, invert=True)),
        "mostly popular items": share >= 0.5,
        "mostly tail items": share < 0.5,
    }


def _popular(train: Interactions) -> Tensor:
    """Whether each item is among the most frequent that have half of the events [N]."""
    counts = torch.from_numpy(train.popularity.copy())
    ordered = counts.sort(descending=True).values
    total = ordered.cumsum(0)
    return counts >= ordered[int((total < total[-1] * 0.5).sum())]
