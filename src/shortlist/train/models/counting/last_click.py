"""The trainer of LastClick: counts of transitions from one item to the next."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.models.counts.last_click import LastClick
from shortlist.progress import Progress, silent
from shortlist.settings import setting
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback


@dataclass(frozen=True)
class LastClickTrainer(ModelTrainer):
    """Counts which item follows each item, or adds its weights, and stores the most frequent ones."""

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True
    counts_only: ClassVar[bool] = True

    model: type[Any] = field(default=LastClick, kw_only=True)
    neighbours: int = setting(100, "Stored next items of every item.", least=1, most=100_000)

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> LastClick:
        transitions = _transitions(events)
        starts, next_items, counts = _most_frequent(transitions, self.neighbours)
        model = LastClick(self.config_for(events, pairs=len(next_items)))
        model.starts.copy_(torch.from_numpy(starts))
        model.next_items.copy_(torch.from_numpy(next_items))
        model.counts.copy_(torch.from_numpy(counts))
        model.total.copy_(torch.from_numpy(np.asarray(transitions.sum(1)).ravel()))
        model.popularity.copy_(torch.from_numpy(events.weighted_popularity / max(len(events), 1)))
        progress("last-click", 1, 1)
        return model.eval()


def _transitions(events: Interactions) -> sparse.csr_matrix:
    """How often each item directly followed each other item [N, N]; an event counts by its weight."""
    same_user = events.users[1:] == events.users[:-1]
    pairs = (events.items[:-1][same_user], events.items[1:][same_user])
    strengths = np.ones(len(events), np.float32) if events.strengths is None else events.strengths
    counts = sparse.csr_matrix((strengths[1:][same_user], pairs), shape=(events.n_items, events.n_items))
    counts.sum_duplicates()
    counts.eliminate_zeros()  # events that are history only
    return counts


def _most_frequent(
    transitions: sparse.csr_matrix, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The `most` largest counts of every row, largest first, equal ones by column: starts, columns, counts."""
    lengths = np.diff(transitions.indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((transitions.indices, -transitions.data, row))
    kept = order[np.arange(len(order)) - np.repeat(transitions.indptr[:-1], lengths) < most]
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))]).astype(np.int64)
    return starts, transitions.indices[kept].astype(np.int64), transitions.data[kept]
