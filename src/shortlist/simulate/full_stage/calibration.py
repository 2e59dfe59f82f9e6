"""Figures of a world that are compared with public measurements of KuaiRec."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812

from shortlist.metrics.two_samples import auc
from shortlist.simulate.full_stage.cell_noise import Rows
from shortlist.simulate.full_stage.short_video import ShortVideoWorld, user_blocks

Numbers = NDArray[np.float64]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
KUAIREC = (0.097, 0.467, 0.779, 1.137, 1.994)  # watch ratio at these levels
ITEM_R2, BOTH_R2 = 0.41, 0.46
EXCERPT = (1411, 83, 2519)  # users, cells per user and items of the public excerpt
SHRINKAGE = 5.0  # observations of effect 0 added to those of each user and item


@dataclass(frozen=True)
class WatchFigures:
    """What the calibration compares: watch ratios, and the variance of log1p(min(w, 5)) that effects explain."""

    quantiles: tuple[float, ...]  # at `LEVELS`
    mean: float
    completed: float  # share with a watch ratio of at least 1
    repeated: float  # share above 2
    item_r2: float  # of shrunken item effects
    both_r2: float  # of shrunken item and user effects
    positives: float  # share of label 1

    @property
    def accepted(self) -> bool:
        """Every quantile within 15 % and both R2 within .08 of KuaiRec."""
        near = all(
            abs(ours / theirs - 1) <= 0.15 for ours, theirs in zip(self.quantiles, KUAIREC, strict=True)
        )
        return near and abs(self.item_r2 - ITEM_R2) <= 0.08 and abs(self.both_r2 - BOTH_R2) <= 0.08


def watch_figures(world: ShortVideoWorld, seed: int = 0) -> WatchFigures:
    """Figures of a sample of the dense block with the size of the public excerpt."""
    rng = np.random.default_rng([seed, 17])
    count, per_user, most = EXCERPT
    users = np.arange(min(world.shape.block_users, count))
    pool = rng.permutation(world.shape.block_items)[:most]
    items = pool[rng.random((len(users), len(pool))).argsort(axis=1)[:, : min(per_user, len(pool))]]
    watch = world.watch_ratio(users, items)
    item_r2, both_r2 = explained(np.log1p(np.minimum(watch, 5.0)), items)
    return WatchFigures(
        quantiles=tuple(float(one) for one in np.quantile(watch, LEVELS)),
        mean=float(watch.mean()),
        completed=float((watch >= 1).mean()),
        repeated=float((watch > 2).mean()),
        item_r2=item_r2,
        both_r2=both_r2,
        positives=float(world.labels(users, items).mean()),
    )


def explained(values: Numbers, items: Rows) -> tuple[float, float]:
    """R2 of item effects, and of item and user effects, both shrunken; values and items [U, K]."""
    total = values - values.mean()
    sums = np.bincount(items.ravel(), total.ravel())
    rest = total - (sums / (np.bincount(items.ravel()) + SHRINKAGE))[items]
    left = rest - (rest.sum(axis=1) / (rest.shape[1] + SHRINKAGE))[:, None]
    return float(1 - (rest**2).sum() / (total**2).sum()), float(1 - (left**2).sum() / (total**2).sum())


def bilinear_share(world: ShortVideoWorld, rank: int = 64, steps: int = 150, seed: int = 0) -> float:
    """The AUC excess over .5 of matrix factorization on held-out cells of the block, as a share of that of r.

    A world with more than .9 is trivial for bilinear models. A tenth of the cells is held out; of all steps the best
    AUC counts.
    """
    users, items = np.arange(world.shape.block_users), np.arange(world.shape.block_items)
    blocks = list(user_blocks(users, len(items)))
    labels = np.concatenate([world.labels(part, items) for part in blocks])
    utilities = np.concatenate([world.r(part, items) for part in blocks])
    held = np.random.default_rng([seed, 18]).random(labels.shape) < 0.1
    best = _factorized_auc(torch.from_numpy(labels), torch.from_numpy(held), rank, steps, seed)
    return (best - 0.5) / (auc(utilities[held].astype(np.float64), labels[held]) - 0.5)


def _factorized_auc(labels: torch.Tensor, held: torch.Tensor, rank: int, steps: int, seed: int) -> float:
    """The best AUC on held-out cells during full-batch training of logistic matrix factorization with biases."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(labels.shape[0], rank), (labels.shape[1], rank), (labels.shape[0], 1), (labels.shape[1], 1)]
    weights = [(0.1 * torch.randn(shape, generator=generator)).requires_grad_() for shape in shapes]
    optimizer = torch.optim.AdamW(weights, lr=0.02, weight_decay=0.5)
    target, trained = labels.float(), (~held).float()
    best = 0.5
    for step in range(steps):
        logits = weights[0] @ weights[1].T + weights[2] + weights[3].T
        loss = F.binary_cross_entropy_with_logits(logits, target, weight=trained)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 10 == 9:
            best = max(best, auc(logits.detach()[held].double().numpy(), labels[held].numpy()))
    return best
