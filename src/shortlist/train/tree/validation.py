"""Recall and F1 of a tree on held-out users, on the device it is trained on."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.windows import gather
from shortlist.index.tree import BEAM, TreeIndex, exhaustive, search
from shortlist.metrics.ranking import f1, recall
from shortlist.train.tree.plan import TreePlan


@dataclass(frozen=True)
class Quality:
    """Metrics of a tree on validation users."""

    recall: float
    f1: float
    distinct: int  # different recommended items


def quality(index: TreeIndex, held_out: HeldOut, plan: TreePlan, k: int = 20) -> Quality:
    """Recall@k, F1@k and the number of distinct recommended items, without items of the history."""
    items, relevant = answers(index, held_out, k, plan.beam, product=plan.product), held_out.relevant()
    return Quality(
        recall=float(recall(items, relevant, k).nanmean()),
        f1=float(f1(items, relevant, k).nanmean()),
        distinct=len(torch.unique(items)),
    )


def validation_sample(valid: HeldOut | None, seed: int, most: int = 1000) -> HeldOut | None:
    """At most `most` random validation users; None without any."""
    if valid is None or not len(valid):
        return None
    return valid.take(np.sort(np.random.default_rng(seed).permutation(len(valid))[:most]))


def answers(
    index: TreeIndex,
    held_out: HeldOut,
    k: int = 20,
    beam: int = BEAM,
    exclude_seen: bool = True,
    product: bool = False,
    full: bool = False,
    chunk: int = 500,
) -> Tensor:
    """The top k items of every held-out user [C, k]; `exclude_seen` drops the history, `full` scores every leaf."""
    max_history, device = index.scorer.config.max_history, index.tree.item_of_leaf.device
    histories = held_out.query(width=max_history).history.to(device)
    seen = full_histories(held_out).to(device) if exclude_seen else None
    parts = []
    for start in range(0, len(held_out), chunk):
        batch = histories[start : start + chunk]
        exclude = None if seen is None else seen[start : start + chunk]
        if full:
            found = exhaustive(index, batch, k, exclude=exclude, path=product)
        else:
            found = search(index, batch, k, beam=beam, exclude=exclude, path=product)
        parts.append(found.items)
    return torch.cat(parts).cpu() if parts else torch.empty((0, k), dtype=torch.int64)


def full_histories(held_out: HeldOut) -> Tensor:
    """All events before each user's cut [C, E], -1 = padding."""
    longest = int(held_out.history_lengths().max()) if len(held_out) else 0
    return torch.from_numpy(gather(held_out.events, held_out.starts, held_out.cuts, longest).astype("int64"))
