"""How much of the catalogue a pipeline uses: what it shows, what it only names, and what it never touches."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.diagnose.sample import UserSample
from shortlist.diagnose.tree.collapse import ENOUGH, FIRST, collapse
from shortlist.errors import DataError
from shortlist.grammar import Stage, as_pipeline
from shortlist.metrics.coverage import coverage, gini
from shortlist.pipeline import run
from shortlist.progress import Progress, silent, tracked


@dataclass(frozen=True)
class Coverage:
    """What all slates together show of a catalogue; shares are of its `items`."""

    requests: int
    items: int
    distinct: int  # in any slate
    share: float
    gini: float | None  # 0 all items are shown alike, near 1 a few have it all; None without a filled place
    entropy: float  # of the places, over that of showing all alike: 1 even, 0 one item
    first_item: int | None  # the most common first item
    first_share: float | None  # share of slates that begin with it
    collapse: bool  # more than a fifth of the slates begin with the same item
    never_nominated: int  # named for nobody of these requests
    never_share: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def coverage_of(slates: Tensor, nominated: Tensor) -> Coverage:
    """The facts of slates [C, k], -1 = an empty place, where items were `nominated` [N] so many times."""
    n_items, (requests, k) = len(nominated), slates.shape
    if not n_items:
        raise DataError("coverage: expected a catalogue with items, got an empty one")
    k = max(k, 1)
    shown = collapse(slates if slates.shape[1] else slates.new_full((requests, 1), -1), n_items, 1.0)
    first = slates[slates[:, 0] >= 0, 0] if slates.shape[1] else slates.new_empty(0)
    never = int((nominated == 0).sum())
    return Coverage(
        requests=requests,
        items=n_items,
        distinct=shown.distinct,
        share=coverage(slates, n_items, k),
        gini=gini(slates, n_items, k) if shown.distinct else None,
        entropy=shown.entropy,
        first_item=int(torch.bincount(first).argmax()) if len(first) else None,
        first_share=shown.first_share if len(first) else None,
        collapse=bool(len(first)) and requests >= ENOUGH and (shown.first_share or 0.0) > FIRST,
        never_nominated=never,
        never_share=never / n_items,
    )


@torch.no_grad()
def covered(pipeline: Stage, asked: UserSample, progress: Progress = silent) -> Coverage:
    """Ask all cases and look at what of the catalogue comes up."""
    pipeline, slates = as_pipeline(pipeline), []
    nominated = torch.zeros(asked.n_items, dtype=torch.int64)
    for batch in tracked(asked.batches, "catalogue", progress):
        slate = run(pipeline, batch.query)
        named = slate.trace.named
        nominated += torch.bincount(named.items[named.valid], minlength=asked.n_items)
        slates.append(slate.items)
    width = max(one.shape[1] for one in slates)
    padded = [torch.nn.functional.pad(one, (0, width - one.shape[1]), value=-1) for one in slates]
    return coverage_of(torch.cat(padded), nominated)
