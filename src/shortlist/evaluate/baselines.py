"""Answers that cost nothing to make: whatever is trained must beat them on the same users."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.data.membership import is_in
from shortlist.models.counts.last_click import LastClick
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.popular_window import PopularWindowTrainer

POPULARITY, WINDOW, LAST = "popularity", "popular in window", "last click"
BATCH = 128


def baselines(cases: HeldOut, learned: Interactions, k: int, clock: str = "ms") -> Mapping[str, Tensor]:
    """Slates [C, k] of what everybody takes, of what everybody took lately, and of what follows the last item.

    All are counted over the `learned` events alone, leave out what a case has seen, and order equal items by row.
    Only as many items are looked at as can come among the best, however large the catalogue is.
    """
    ever = torch.from_numpy(learned.popularity.copy())
    lately = PopularWindowTrainer().clocked(clock).learn(learned).worth
    return {
        POPULARITY: _everybodys(ever, cases, k),
        WINDOW: _everybodys(lately, cases, k),
        LAST: _followed(LastClickTrainer().learn(learned), cases, k),
    }


def _everybodys(worth: Tensor, cases: HeldOut, k: int) -> Tensor:
    """The best items for anybody, without what each case has seen."""
    order = worth.argsort(descending=True, stable=True)
    return torch.cat([_fresh(order[: k + met.shape[1]].expand(len(met), -1), met, k) for met in _met(cases)])


@torch.no_grad()
def _followed(model: LastClick, cases: HeldOut, k: int) -> Tensor:
    """The model's best without what each case has seen: items that were counted, and the most popular after them."""
    order = model.share.argsort(descending=True, stable=True)
    slates = []
    for met in _met(cases):
        rows, counts, total = model.followed(met)
        popular = order[: k + met.shape[1] + rows.shape[1]].expand(len(met), -1)  # so many that k are left
        popular = popular.masked_fill(is_in(popular, rows), -1)
        items = torch.cat([rows, popular], dim=1)
        scores = torch.nn.functional.pad(counts, (0, popular.shape[1]))
        scores = scores + model.config.backoff * model.share[items.clamp(min=0)]
        scores = scores / (total + model.config.backoff)[:, None]  # as the model says it, to the last bit
        slates.append(_fresh(_ordered(items, scores), met, k))
    return torch.cat(slates)


def _met(cases: HeldOut) -> Iterator[Tensor]:
    """What each case has seen, in batches [B, H]."""
    for start in range(0, len(cases), BATCH):
        some = cases.take(slice(start, start + BATCH))
        yield some.query(width=max(int(some.history_lengths().max()), 1)).history


def _ordered(items: Tensor, scores: Tensor) -> Tensor:
    """Items by score, equal ones by row."""
    items, by_row = items.sort(dim=1)
    best = scores.gather(1, by_row).sort(dim=1, descending=True, stable=True).indices
    return items.gather(1, best)


def _fresh(items: Tensor, met: Tensor, k: int) -> Tensor:
    """The first k [B, k] that are items and were not met, -1 where there are fewer."""
    stays = (items >= 0) & ~is_in(items, met)
    order = (~stays).to(torch.uint8).sort(dim=1, stable=True).indices[:, :k]
    found = items.gather(1, order).masked_fill(~stays.gather(1, order), -1)
    return torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-1)
