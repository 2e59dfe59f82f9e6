"""What stands beside a bound because it is not vacuous: hold-out errors, measured gaps, what a class fits by chance."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.diagnose.tree.heap import level_values
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.lab.theory.margin import path_margin
from shortlist.metrics.estimate import DRAWS, FEWEST, Estimate, exact_share, resampled
from shortlist.train.tree.loss import surrogate

ONCE = 256  # instances whose levels are looked at together


@dataclass(frozen=True)
class Beside:
    """What is known of a configuration without any theorem."""

    error: Estimate | None = None  # of held-out instances, exact binomial
    hoeffding: float | None = None  # that error is at most so much with the same confidence, one-sided
    gap: Estimate | None = None  # held-out loss less training loss, the same loss
    loss: str = ""  # which
    by_chance: BoundTerm | None = None  # what the linear class fits by chance on these users

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        told = None if self.by_chance is None else self.by_chance.as_dict()
        return asdict(self) | {"by_chance": told}


def hoeffding(n: int, delta: float = 0.05) -> float:
    """How far the true error may lie above that of n held-out instances: sqrt(ln(1 / delta) / (2 n))."""
    return math.sqrt(math.log(1 / delta) / (2 * n))


def held_out(losses: Tensor, delta: float = 0.05) -> tuple[Estimate, float]:
    """Errors 0 and 1 of held-out instances [n]: their share with its exact interval, and Hoeffding's upper end."""
    if len(losses) == 0:
        raise DataError("hold-out error: expected held-out instances, got none")
    share = float(losses.double().mean())
    return exact_share(int(losses.sum()), len(losses), 1 - delta), min(
        1.0, share + hoeffding(len(losses), delta)
    )


def train_test_gap(
    train: Tensor, train_users: Tensor, test: Tensor, test_users: Tensor, seed: int = 0, draws: int = DRAWS
) -> Estimate:
    """Held-out mean less training mean of the same loss [n], with an interval over users; none with too few users."""
    ones, others = _per_user(test, test_users), _per_user(train, train_users)
    mean = _mean(ones.sum(0)[None])[0] - _mean(others.sum(0)[None])[0]
    if min(len(ones), len(others)) < FEWEST:
        return Estimate(float(mean))
    apart = _mean(resampled(ones, seed, draws)) - _mean(resampled(others, seed + 1, draws))
    low, high = np.quantile(apart, [0.025, 0.975])
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


def chance_of_linear(x: Tensor, b0: float, draws: int = 200, seed: int = 0) -> BoundTerm:
    """What one node of a linear scorer fits by chance on these users [m, D]: (B0 / m) E ||sum eps_i x_i||, measured."""
    generator = torch.Generator().manual_seed(seed)
    rows = x.detach().double().cpu()
    found = [
        float(((torch.randint(2, (1, len(rows)), generator=generator) * 2 - 1).double() @ rows).norm())
        for _ in range(draws)
    ]
    values = b0 / len(rows) * np.array(found)
    error = float(values.std(ddof=1)) / math.sqrt(draws) if draws > 1 else math.nan
    said = (f"mean of {draws} draws of signs, standard error {error:.2g}", "a single node")
    value = float(values.mean())
    vacuous = value >= b0 * float(rows.norm(dim=1).max())
    return BoundTerm("by chance", value, "(B0 / m) E ||sum eps_i x_i||", "measured", vacuous, None, said)


class TreeLosses(NamedTuple):
    """Losses of instances [n] that a tree is judged by, all over whole levels."""

    ramp: Tensor  # of the margin over whole levels, the loss of theorem 4.4
    error: Tensor  # 1 where the item is not among the k best leaves
    leaves: Tensor  # softmax over all leaves, in nats: the same loss for any branches
    levels: Tensor  # softmax over every level, summed


@torch.no_grad()
def tree_losses(
    index: TreeIndex, histories: Tensor, labels: Tensor, k: int, gamma: float = 1.0, beam: int | None = None
) -> TreeLosses:
    """What instances, histories [n, K] and labels [n], cost a tree; a label without a leaf costs most, inf in nats."""
    parts = [
        _losses(index, histories[at : at + ONCE], labels[at : at + ONCE], k, gamma, beam)
        for at in range(0, len(labels), ONCE)
    ]
    return TreeLosses(*(torch.cat(one) for one in zip(*parts, strict=True)))


def _losses(
    index: TreeIndex, histories: Tensor, labels: Tensor, k: int, gamma: float, beam: int | None
) -> TreeLosses:
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    values = level_values(index, histories)
    margin = path_margin(shape, values, leaves, k, beam=beam).value
    nats = torch.stack(
        [
            -one.double().log_softmax(1).gather(1, shape.ancestor(leaves.clamp(min=0), level)[:, None])[:, 0]
            for level, one in enumerate(values)
        ],
        1,
    ).masked_fill((leaves < 0)[:, None], torch.inf)  # [n, 1 + H]; the root costs nothing
    own = values[-1].gather(1, leaves.clamp(min=0)[:, None])
    ahead = (values[-1] > own).sum(1)
    missed = (ahead >= k) | (leaves < 0)
    return TreeLosses(surrogate(margin, "ramp", gamma), missed.double(), nats[:, -1], nats.sum(1))
