"""Measurements beside a bound: hold-out errors, train-test gaps, empirical Rademacher complexity."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.lab.theory.margin import path_margin
from shortlist.metrics.estimate import DRAWS, MIN_USERS, Estimate, exact_share, resampled
from shortlist.train.tree.loss import surrogate

ONCE = 256  # instances per batch


@dataclass(frozen=True)
class Measured:
    """Measured errors of a configuration."""

    error: Estimate | None = None  # of held-out instances, exact binomial interval
    hoeffding: float | None = None  # one-sided upper bound of that error with the same confidence
    gap: Estimate | None = None  # held-out loss minus training loss
    loss: str = ""  # name of that loss
    rademacher: BoundTerm | None = None  # empirical complexity of the linear class on these users


def hoeffding(n: int, delta: float = 0.05) -> float:
    """The margin of the true error above that of n held-out instances: sqrt(ln(1 / delta) / (2 n))."""
    return math.sqrt(math.log(1 / delta) / (2 * n))


def held_out(losses: Tensor, delta: float = 0.05) -> tuple[Estimate, float]:
    """Errors 0 and 1 of held-out instances [n]: their share with its exact interval, and Hoeffding's upper bound."""
    if len(losses) == 0:
        raise DataError("hold-out error: expected held-out instances, got none")
    share = float(losses.double().mean())
    return exact_share(int(losses.sum()), len(losses), 1 - delta), min(
        1.0, share + hoeffding(len(losses), delta)
    )


def train_test_gap(
    train: Tensor, train_users: Tensor, test: Tensor, test_users: Tensor, seed: int = 0, draws: int = DRAWS
) -> Estimate:
    """Held-out mean minus training mean of the same loss [n], with an interval over users; none with too few users."""
    tested, trained = _per_user(test, test_users), _per_user(train, train_users)
    mean = _mean(tested.sum(0)[None])[0] - _mean(trained.sum(0)[None])[0]
    if min(len(tested), len(trained)) < MIN_USERS:
        return Estimate(float(mean))
    gaps = _mean(resampled(tested, seed, draws)) - _mean(resampled(trained, seed + 1, draws))
    low, high = np.quantile(gaps, [0.025, 0.975])
    return Estimate(float(mean), float(low), float(high))


def _per_user(losses: Tensor, users: Tensor) -> NDArray[np.float64]:
    """Sum and number of the losses of every user [U, 2]."""
    if len(losses) == 0 or losses.shape != users.shape:
        raise DataError(f"gap: expected a user for each of the losses, got {len(users)} and {len(losses)}")
    _, at = np.unique(users.cpu().numpy(), return_inverse=True)
    return np.stack([np.bincount(at, losses.double().cpu().numpy()), np.bincount(at)], 1).astype(np.float64)


def _mean(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = sums[:, 0] / sums[:, 1]
    return means


def rademacher_linear(x: Tensor, b0: float, draws: int = 200, seed: int = 0) -> BoundTerm:
    """Empirical Rademacher complexity of one node of a linear scorer on users [m, D]: (B0 / m) E ||sum eps_i x_i||."""
    generator = torch.Generator().manual_seed(seed)
    rows = x.detach().double().cpu()
    found = [
        float(((torch.randint(2, (1, len(rows)), generator=generator) * 2 - 1).double() @ rows).norm())
        for _ in range(draws)
    ]
    values = b0 / len(rows) * np.array(found)
    error = float(values.std(ddof=1)) / math.sqrt(draws) if draws > 1 else math.nan
    assumptions = (f"mean of {draws} random sign vectors, standard error {error:.2g}", "a single node")
    value = float(values.mean())
    vacuous = value >= b0 * float(rows.norm(dim=1).max())
    formula = "(B0 / m) E ||sum eps_i x_i||"
    return BoundTerm("Rademacher complexity", value, formula, "measured", vacuous, None, assumptions)


class TreeLosses(NamedTuple):
    """Losses of instances [n], all over whole levels."""

    ramp: Tensor  # of the full-level margin, the loss of theorem 4.4
    error: Tensor  # 1 if the item is not among the k best leaves
    leaves: Tensor  # softmax over all leaves, in nats: comparable between branches
    levels: Tensor  # softmax over every level, summed


@torch.no_grad()
def tree_losses(
    index: TreeIndex, histories: Tensor, labels: Tensor, k: int, gamma: float = 1.0, beam: int | None = None
) -> TreeLosses:
    """The losses of histories [n, K] and labels [n]; a label without a leaf has the largest loss, inf in nats."""
    parts = [
        _losses(index, histories[at : at + ONCE], labels[at : at + ONCE], k, gamma, beam)
        for at in range(0, len(labels), ONCE)
    ]
    return TreeLosses(*(torch.cat(losses) for losses in zip(*parts, strict=True)))


def _losses(
    index: TreeIndex, histories: Tensor, labels: Tensor, k: int, gamma: float, beam: int | None
) -> TreeLosses:
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    values = level_scores(index, histories)
    margin = path_margin(shape, values, leaves, k, beam=beam).value
    nats = torch.stack(
        [
            -scores.double()
            .log_softmax(1)
            .gather(1, shape.ancestor(leaves.clamp(min=0), level)[:, None])[:, 0]
            for level, scores in enumerate(values)
        ],
        1,
    ).masked_fill((leaves < 0)[:, None], torch.inf)  # [n, 1 + H]; the root has loss 0
    own = values[-1].gather(1, leaves.clamp(min=0)[:, None])
    ahead = (values[-1] > own).sum(1)
    missed = (ahead >= k) | (leaves < 0)
    return TreeLosses(surrogate(margin, "ramp", gamma), missed.double(), nats[:, -1], nats.sum(1))
