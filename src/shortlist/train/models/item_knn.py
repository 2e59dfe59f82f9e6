"""Item-kNN: which items are met by the same users, the best few for each."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.models.collaborative.item_knn import ItemKNN, ItemKNNConfig
from shortlist.progress import Progress, silent, tracked
from shortlist.train.loop.ranges import check_ranges
from shortlist.train.models.co_visit import CELLS, USUAL, nearest_items
from shortlist.train.models.trainer import ModelTrainer, Watch, unwatched


@dataclass(frozen=True)
class ItemKNNTrainer(ModelTrainer):
    """Cosine of who met an item, `shrink` users added below the line so that rare pairs do not shine by accident."""

    neighbours: int = 20
    shrink: float = 0.0

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> ItemKNN:
        check_ranges(vars(self))
        width = max(min(self.neighbours, events.n_items - 1), 1)
        model = ItemKNN(ItemKNNConfig(events.n_items, neighbours=width))
        if not len(events):
            return model.eval()
        met = events.matrix().tocsc()
        norms = np.sqrt(np.asarray(met.sum(0))).ravel()
        block = max(min(CELLS // events.n_items, 1024), 1)
        found = [
            nearest_items(met, norms, slice(start, start + block), width, self.shrink / USUAL)
            for start in tracked(range(0, events.n_items, block), "item-knn", progress)
        ]
        rows, likeness = (np.concatenate(part) for part in zip(*found, strict=True))
        model.rows.copy_(torch.from_numpy(rows))
        model.likeness.copy_(torch.from_numpy(likeness))
        model.share.copy_(torch.from_numpy((events.popularity / len(events)).astype(np.float32)))
        return model.eval()
