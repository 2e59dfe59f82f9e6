"""Steps from one item to the next, counted."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.models.counts.last_click import LastClick, LastClickConfig
from shortlist.progress import Progress, silent
from shortlist.train.models.trainer import ModelTrainer, Watch, unwatched


@dataclass(frozen=True)
class LastClickTrainer(ModelTrainer):
    """Counts which item users met next after each; the `neighbours` that came most often are kept."""

    neighbours: int = 100
    backoff: float = 10.0  # popularity counts for so many steps

    def __post_init__(self) -> None:
        if self.neighbours < 1 or not self.backoff > 0:
            got = f"{self.neighbours} and {self.backoff}"
            raise ConfigError(f"last-click: expected neighbours from 1 and a backoff above 0, got {got}")

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> LastClick:
        steps = _steps(events)
        starts, nexts, counts = _best(steps, self.neighbours)
        model = LastClick(LastClickConfig(events.n_items, pairs=len(nexts), backoff=self.backoff))
        model.starts.copy_(torch.from_numpy(starts))
        model.nexts.copy_(torch.from_numpy(nexts))
        model.counts.copy_(torch.from_numpy(counts))
        model.total.copy_(torch.from_numpy(np.asarray(steps.sum(1)).ravel()))
        model.share.copy_(torch.from_numpy(events.popularity / max(len(events), 1)))
        progress("last click", 1, 1)
        return model.eval()


def _steps(events: Interactions) -> sparse.csr_matrix:
    """How often each item came right after each other [N, N]."""
    same = events.users[1:] == events.users[:-1]
    pair = (events.items[:-1][same], events.items[1:][same])
    counts = sparse.csr_matrix(
        (np.ones(int(same.sum()), np.float32), pair), shape=(events.n_items, events.n_items)
    )
    counts.sum_duplicates()
    return counts


def _best(
    steps: sparse.csr_matrix, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The `most` largest of every row, the larger first, equal ones by column: starts, columns, counts."""
    lengths = np.diff(steps.indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((steps.indices, -steps.data, row))
    kept = order[np.arange(len(order)) - np.repeat(steps.indptr[:-1], lengths) < most]
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))]).astype(np.int64)
    return starts, steps.indices[kept].astype(np.int64), steps.data[kept]
