"""Baselines that need no training but counting: popularity, popularity in a recent window, and last click."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.data.membership import is_in
from shortlist.models.counts.last_click import LastClick
from shortlist.train.context import DAY
from shortlist.train.models.last_click import LastClickTrainer

POPULARITY, WINDOW, LAST = "popularity", "popular in window", "last click"
WINDOW_DAYS = 30.0  # before the last training event
WINDOW_SHARE = 0.1  # latest share of the events, where the log has only their order
BATCH = 128


def baselines(held_out: HeldOut, train: Interactions, k: int, clock: str = "ms") -> Mapping[str, Tensor]:
    """Slates [C, k] of the three baselines, each without the items of the request's history.

    All are counted over the `train` events. Equal items are ordered by row. The `clock` of the log is "ms" or "order".
    Only items that can be among the best k are scored, so the cost does not grow with the catalogue.
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
    return torch.cat(
        [
            _unseen(order[: k + history.shape[1]].expand(len(history), -1), history, k)
            for history in _histories(held_out)
        ]
    )


@torch.no_grad()
def _last_click(model: LastClick, held_out: HeldOut, k: int) -> Tensor:
    """The best items of the model: those counted after the last item, then the most popular."""
    order = model.popularity.argsort(descending=True, stable=True)
    slates = []
    for history in _histories(held_out):
        rows, counts, total = model.followed(history)
        popular = order[: k + history.shape[1] + rows.shape[1]].expand(
            len(history), -1
        )  # at least k are left
        popular = popular.masked_fill(is_in(popular, rows), -1)
        items = torch.cat([rows, popular], dim=1)
        scores = torch.nn.functional.pad(counts, (0, popular.shape[1]))
        scores = scores + model.config.backoff * model.popularity[items.clamp(min=0)]
        scores = (
            scores / (total + model.config.backoff)[:, None]
        )  # the model's formula, so that ties are the same
        slates.append(_unseen(_ordered(items, scores), history, k))
    return torch.cat(slates)


def _histories(held_out: HeldOut) -> Iterator[Tensor]:
    """The whole history of each request, in batches [B, H]."""
    for start in range(0, len(held_out), BATCH):
        batch = held_out.take(slice(start, start + BATCH))
        yield batch.query(width=max(int(batch.history_lengths().max()), 1)).history


def _ordered(items: Tensor, scores: Tensor) -> Tensor:
    """Items by score, equal ones by row."""
    items, by_row = items.sort(dim=1)
    best = scores.gather(1, by_row).sort(dim=1, descending=True, stable=True).indices
    return items.gather(1, best)


def _unseen(items: Tensor, history: Tensor, k: int) -> Tensor:
    """The first k items [B, k] that are not in the history, -1 where there are fewer."""
    kept = (items >= 0) & ~is_in(items, history)
    order = (~kept).to(torch.uint8).sort(dim=1, stable=True).indices[:, :k]
    slate = items.gather(1, order).masked_fill(~kept.gather(1, order), -1)
    return torch.nn.functional.pad(slate, (0, k - slate.shape[1]), value=-1)
