"""Reveal ratio of nomination channels: how much of what a channel returned is shown, and how much of the slate is its.

An item of m channels counts fully for each of them (`full`) or 1 / m for each (`split`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.metrics.funnel.pair_counts import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Credit:
    """One ratio per channel [channels], NaN where the denominator is 0."""

    full: Floats
    split: Floats


def reveal_yield(channel_mask: Ints, shown: Bools, channels: int, weight: Floats | None = None) -> Credit:
    """Shown items credited to a channel over all items that the channel returned.

    Bit k of `channel_mask` [rows] says that channel k returned the item; `weight` is 1 / incl_prob.
    """
    returned, weights = _returned(channel_mask, channels), _weights(weight, shown)
    return _ratio(returned, shown, weights, weights @ returned)


def reveal_share(channel_mask: Ints, shown: Bools, channels: int, weight: Floats | None = None) -> Credit:
    """Shown items credited to a channel over all shown items; `split` adds up to 1 where every item has a channel."""
    returned, weights = _returned(channel_mask, channels), _weights(weight, shown)
    return _ratio(returned, shown, weights, np.full(channels, (weights * shown).sum()))


def reveal_first(rank: Ints, shown: Bools, weight: Floats | None = None) -> Floats:
    """Shown items credited to the channels with their best rank over all shown items [channels]; adds up to 1.

    `rank` [rows, channels] is large where the channel did not return the item; channels of the same rank share it.
    """
    best = rank == rank.min(axis=1, keepdims=True)
    credit = _weights(weight, shown) * shown
    return _over((best / best.sum(1, keepdims=True)).T @ credit, np.full(rank.shape[1], credit.sum()))


def _ratio(returned: Floats, shown: Bools, weight: Floats, whole: Floats) -> Credit:
    credit = weight * shown
    split = credit / np.maximum(returned.sum(1), 1)
    return Credit(_over(credit @ returned, whole), _over(split @ returned, whole))


def _over(top: Floats, bottom: Floats) -> Floats:
    return np.asarray(np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0), np.float64)


def _returned(channel_mask: Ints, channels: int) -> Floats:
    """Whether each channel returned the row, 1 or 0 [rows, channels]."""
    bits: NDArray[np.int64] = (channel_mask[:, None] >> np.arange(channels)) & 1
    return bits.astype(np.float64)


def _weights(weight: Floats | None, shown: Bools) -> Floats:
    return np.ones(len(shown)) if weight is None else weight.astype(np.float64)
