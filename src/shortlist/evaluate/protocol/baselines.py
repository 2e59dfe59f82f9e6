"""Baselines that need no training but counting: popularity, popularity in a recent window, and last click."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.data.held_out import Positions
from shortlist.models.counts.last_click import LastClick
from shortlist.models.counts.slates import first_unseen, next_items
from shortlist.train.context import DAY
from shortlist.train.models.counting.last_click import LastClickTrainer

POPULARITY, WINDOW, LAST = "popularity", "popular in window", "last click"
WINDOW_DAYS = 30.0  # before the last training event
WINDOW_SHARE = 0.1  # latest share of the events, where the log has only their order


def baselines(held_out: HeldOut, train: Interactions, k: int, clock: str = "ms") -> Mapping[str, Tensor]:
    """Slates [C, k] of the three baselines, each without the items of the request's history.

    All are counted over the `train` events. Equal items are ordered by row. The `clock` of the log is "ms" or "order".
    Only items that can be among the best k are read, so the cost does not grow with the catalogue.
    """
    overall = torch.from_numpy(train.popularity.copy())
    recent = torch.from_numpy(np.bincount(train.items[in_window(train, clock)], minlength=train.n_items))
    return {
        POPULARITY: _same_for_all(_by_count(overall), held_out, k),
        WINDOW: _same_for_all(_by_count(recent, overall), held_out, k),
        LAST: _last_click(LastClickTrainer().learn(train), held_out, k),
    }


def in_window(train: Interactions, clock: str = "ms") -> NDArray[np.bool_]:
    """Which events are recent [E]: the last 30 days, or the last tenth where the log has only the order of events."""
    if not len(train):
        return np.ones(0, bool)
    if clock != "order":
        return np.asarray(train.times > train.times.max() - WINDOW_DAYS * DAY)
    first = len(train) - max(round(WINDOW_SHARE * len(train)), 1)
    return np.asarray(train.times >= np.partition(train.times, first)[first])  # equal times stay together


def _by_count(*counts: Tensor) -> Tensor:
    """Item rows [N], the largest count first; later counts break ties, then the row."""
    order = torch.arange(len(counts[0]))
    for count in reversed(counts):
        order = order[count[order].argsort(descending=True, stable=True)]
    return order


def _same_for_all(order: Tensor, held_out: HeldOut, k: int) -> Tensor:
    """The first items of one order, without the history of each request."""
    return torch.from_numpy(first_unseen(order.numpy(), *_histories(held_out), k))


def _last_click(model: LastClick, held_out: HeldOut, k: int) -> Tensor:
    """The best items of the model: those counted after the last item, then the most popular."""
    table = tuple(one.numpy() for one in (model.starts, model.next_items, model.counts, model.total))
    popularity = model.popularity
    order = popularity.argsort(descending=True, stable=True).numpy()
    backoff = np.float32(model.config.backoff)
    return torch.from_numpy(next_items(table, popularity.numpy(), order, backoff, *_histories(held_out), k))


def _histories(held_out: HeldOut) -> tuple[NDArray[np.int32], Positions, Positions]:
    """Items of all events, and where the history of each request begins and ends."""
    return held_out.events.items, held_out.starts, held_out.cuts
