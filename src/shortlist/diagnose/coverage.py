"""How much of the catalogue a pipeline uses: what it returns, what it only nominates, what it never nominates."""

from dataclasses import dataclass

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
    """Catalogue coverage of all slates together; shares are of the catalogue's `items`."""

    requests: int
    items: int
    distinct: int  # in any slate
    share: float
    gini: (
        float | None
    )  # 0: all items equally often; near 1: a few items fill all slates; None without any item
    entropy: float  # of the slate places, normalised: 1 uniform, 0 one item
    first_item: int | None  # the most common first item
    first_share: float | None  # share of slates that begin with it
    collapse: bool  # more than a fifth of the slates begin with the same item
    never_nominated: int  # items nominated for none of these requests
    never_share: float


def coverage_of(slates: Tensor, nominated: Tensor) -> Coverage:
    """Coverage of slates [C, k], -1 = an empty place; `nominated` [N] counts nominations per item."""
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
def measure_coverage(pipeline: Stage, sample: UserSample, progress: Progress = silent) -> Coverage:
    """Run all requests and count which items are nominated and returned."""
    pipeline, slates = as_pipeline(pipeline), []
    nominated = torch.zeros(sample.n_items, dtype=torch.int64)
    for batch in tracked(sample.batches, "catalogue coverage", progress):
        slate = run(pipeline, batch.query)
        pool = slate.trace.nominated
        nominated += torch.bincount(pool.items[pool.valid], minlength=sample.n_items)
        slates.append(slate.items)
    width = max(items.shape[1] for items in slates)
    padded = [torch.nn.functional.pad(items, (0, width - items.shape[1]), value=-1) for items in slates]
    return coverage_of(torch.cat(padded), nominated)
