"""Held-out requests in batches of similar histories, and the slates of a pipeline for all of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Query
from shortlist.data.held_out import Positions
from shortlist.grammar import Stage, as_pipeline
from shortlist.pipeline.batch.job import workers
from shortlist.pipeline.recommender import resized
from shortlist.pipeline.run import run
from shortlist.progress import Progress, silent, tracked

Answer = TypeVar("Answer")

BATCH = 128
LEAST, MOST = 64, 256  # requests of a batch
CELLS = 1 << 23  # scores of a batch against the whole catalogue


def batches(held_out: HeldOut) -> Iterator[Positions]:
    """Positions of requests with histories of similar length, so that little is padding.

    A model that scores all items has at most CELLS scores per batch, except for LEAST requests.
    """
    size = int(np.clip(CELLS // max(held_out.events.n_items, 1), LEAST, MOST))
    order = np.argsort(held_out.history_lengths(), kind="stable")
    return (np.sort(order[start : start + size]) for start in range(0, len(order), size))


def in_batches(
    work: Callable[[HeldOut, Query], Answer],
    held_out: HeldOut,
    progress: Progress = silent,
    task: str = "evaluate",
) -> list[tuple[Positions, Answer]]:
    """Work on all requests with their whole histories, batches side by side, and the positions of each batch."""
    with workers() as pool:
        jobs = [(rows, pool.submit(_answer, work, held_out.take(rows))) for rows in batches(held_out)]
        return [(rows, job.result()) for rows, job in tracked(jobs, task, progress)]


@torch.no_grad()
def _answer(work: Callable[[HeldOut, Query], Answer], part: HeldOut) -> Answer:
    return work(part, part.query(width=longest_history(part)))


def slates_of(
    pipeline: Stage, held_out: HeldOut, k: int, progress: Progress = silent, task: str = "evaluate"
) -> Tensor:
    """The slates of a pipeline for all held-out requests, k items each [C, k], -1 = an empty place."""
    sized = resized(as_pipeline(pipeline), k)
    return in_order(in_batches(lambda _, query: run(sized, query).items, held_out, progress, task))


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
