"""Held-out requests in batches of similar histories, and the slates of a pipeline for all of them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Query
from shortlist.data.held_out import Positions
from shortlist.grammar import Stage, as_pipeline
from shortlist.pipeline import run
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent, tracked

BATCH = 128
MOST = 512  # requests of a batch
CELLS = 1 << 25  # scores of a batch against the whole catalogue


def batches(
    held_out: HeldOut, progress: Progress = silent, task: str = "evaluate"
) -> Iterator[tuple[Positions, HeldOut, Query]]:
    """Positions and requests with their whole histories; histories of similar length, so that little is padding.

    A model that scores all items has at most CELLS scores per batch.
    """
    size = int(np.clip(CELLS // max(held_out.events.n_items, 1), 1, MOST))
    order = np.argsort(held_out.history_lengths(), kind="stable")
    for start in tracked(range(0, len(order), size), task, progress):
        rows = np.sort(order[start : start + size])
        part = held_out.take(rows)
        yield rows, part, part.query(width=longest_history(part))


@torch.no_grad()
def slates_of(pipeline: Stage, held_out: HeldOut, k: int, progress: Progress = silent) -> Tensor:
    """The slates of a pipeline for all held-out requests, k items each [C, k], -1 = an empty place."""
    sized = resized(as_pipeline(pipeline), k)
    parts = [(rows, run(sized, query).items) for rows, _, query in batches(held_out, progress)]
    return in_order(parts)


def in_order(parts: Sequence[tuple[Positions, Tensor]]) -> Tensor:
    """The slates of all batches at their positions [C, k]."""
    count, width = sum(len(rows) for rows, _ in parts), max(items.shape[1] for _, items in parts)
    slates = torch.full((count, width), -1)
    for rows, items in parts:
        slates[torch.from_numpy(rows), : items.shape[1]] = items
    return slates


def longest_history(held_out: HeldOut) -> int:
    """The width of histories that truncates none of them."""
    return int(held_out.history_lengths().max(initial=1))
