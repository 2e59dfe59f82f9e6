"""From how many events on a user's own vector is better, over item vectors that are trained and frozen.

By moments: Q and V of own vectors that are fitted to two disjoint halves. In terms of loss: an own vector, the mean
vector and a recurrence predict the same later events. The second does not depend on the scale of the vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.metrics.moments import (
    LengthBin,
    Moments,
    information_q,
    q_drift,
    split_half_moments,
    variance_by_length,
)
from shortlist.models.fold_in import fold_in, sums_of
from shortlist.models.model import VectorModel
from shortlist.train.two_time_scale.personal import ItemSpace

SIZES = (10, 20, 50, 100)  # events in each half
GRID = (
    0,
    1,
    2,
    3,
    5,
    7,
    10,
    15,
    20,
    30,
    50,
    75,
    100,
    150,
    200,
    300,
)  # events before those that are predicted
LENGTHS = (20, 41, 101, 201, 401)  # least events of the users of each bin
HELD = 10  # events that are predicted
WEAK = 0.01  # of the prior: nearly the vector of the largest likelihood
FEW, MOST = 30, 1000  # users of an estimate
INFORMED = 200  # users of the information form
CELLS = 1 << 23  # scores in memory at a time

Positions = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Halves:
    """Estimates from two vectors per user, each of t events."""

    moments: Moments
    users: int
    information: float  # Q of the information form with the prior of t events
    by_length: tuple[LengthBin, ...]  # V of users by their number of events
    weak: Moments  # of vectors with hardly a prior


@dataclass(frozen=True, eq=False)
class Losses:
    """Mean negative log-likelihood of the next events of each user [U], after t events."""

    t: int
    own: Floats  # vector fitted to the t events
    weak: Floats  # the same with hardly a prior
    mean: Floats  # the mean vector for all
    recurrence: Floats | None  # state after the same t events


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """All estimates on one log."""

    halves: tuple[Halves, ...]
    losses: tuple[Losses, ...]

    def drift(self, weak: bool = False) -> float | None:
        """The largest Q over the smallest one; None for fewer than two sizes of halves.

        The error falls like 1 / (T + 1), as a threshold from moments needs, if this is at most `MOST_DRIFT`.
        """
        moments = [one.weak if weak else one.moments for one in self.halves]
        return q_drift(moments) if len(moments) > 1 else None

    def crossing(self, own: str, other: str) -> int | None:
        """The smallest t of the grid from which on `own` has no larger loss than `other`; None if there is none."""
        worse = [bool(getattr(one, own).mean() > getattr(one, other).mean()) for one in self.losses]
        last = max((place for place, is_worse in enumerate(worse) if is_worse), default=-1)
        return self.losses[last + 1].t if last + 1 < len(self.losses) else None


def threshold_curve(
    events: Interactions,
    space: ItemSpace,
    recurrence: VectorModel | None = None,
    *,
    sizes: Sequence[int] = SIZES,
    grid: Sequence[int] = GRID,
    held: int = HELD,
    exclude_seen: bool = False,
    seed: int = 0,
) -> ThresholdCurve:
    """Both thresholds on the events of users that the item vectors were best not trained on.

    Sizes and grid points that fewer than 30 users have enough events for are left out; at most 1,000 users are taken,
    at random. With `exclude_seen`, items of the events before do not compete: right for a log without repeats.
    """
    _check(events, space, sizes, grid, held)
    halves = tuple(one for t in sorted(set(sizes)) if (one := halves_of(events, space, t, seed)) is not None)
    points = ((t, some_users(events, t + held, seed)) for t in sorted(set(grid)))
    losses = tuple(
        losses_after(events, users, space, t, recurrence, held=held, exclude_seen=exclude_seen)
        for t, users in points
        if len(users) >= FEW
    )
    if not losses:
        raise DataError(
            f"threshold curve: expected {FEW} or more users with {min(grid) + held} events, got "
            f"{int((events.lengths >= min(grid) + held).sum())}"
        )
    return ThresholdCurve(halves, losses)


def halves_of(events: Interactions, space: ItemSpace, t: int, seed: int) -> Halves | None:
    """Estimates from two disjoint random halves of 2t events of each user; None with too few users."""
    users = some_users(events, 2 * t, seed)
    if len(users) < FEW:
        return None
    rng = np.random.default_rng([seed, t])
    order = np.stack([rng.permutation(int(events.lengths[user]))[: 2 * t] for user in users])
    rows = events.items[events.starts[users][:, None] + order]  # [U, 2t]
    parts = rows[:, :t], rows[:, t:]
    own, weak = (
        [own_vectors(part, space, prior) for part in parts] for prior in (space.prior, WEAK * space.prior)
    )
    (first, second), (third, fourth) = ([_numbers(one) for one in pair] for pair in (own, weak))
    return Halves(
        split_half_moments(first, second, t),
        len(users),
        _information((own[0] + own[1])[:INFORMED] / 2, space, t),
        variance_by_length(first, second, events.lengths[users], LENGTHS),
        split_half_moments(third, fourth, t),
    )


def losses_after(
    events: Interactions,
    users: Positions,
    space: ItemSpace,
    t: int,
    recurrence: VectorModel | None = None,
    *,
    held: int = HELD,
    exclude_seen: bool = False,
) -> Losses:
    """The loss of events t + 1 .. t + held of each user, predicted from the first t by each kind of vector."""
    rows = events.items[events.starts[users][:, None] + np.arange(t + held)].astype(np.int64)
    before, after = (torch.from_numpy(one).to(space.items.device) for one in (rows[:, :t], rows[:, t:]))
    kinds = {
        "own": own_vectors(rows[:, :t], space, space.prior),
        "weak": own_vectors(rows[:, :t], space, WEAK * space.prior),
        "mean": space.mean.expand(len(users), -1),
    }
    seen = before if exclude_seen else before[:, :0]
    found = {name: _losses(vectors, space.items, seen, after) for name, vectors in kinds.items()}
    moved = None if recurrence is None else _recurrent_losses(recurrence, before, seen, after)
    return Losses(t, found["own"], found["weak"], found["mean"], moved)


def own_vectors(rows: NDArray[np.integer], space: ItemSpace, prior: float) -> Tensor:
    """The vector fitted to each row of item rows [U, t] -> [U, D]; the mean without events."""
    counts = torch.full((len(rows),), rows.shape[1], device=space.items.device)
    flat = torch.from_numpy(rows.reshape(-1).astype(np.int64)).to(space.items.device)
    return fold_in(sums_of(flat, space.items, counts), counts, space.items, space.mean, prior)


def some_users(events: Interactions, least: int, seed: int) -> Positions:
    """At most 1,000 random users with enough events; a seed takes the same ones first for every number."""
    order = np.random.default_rng(seed).permutation(events.n_users)
    return np.sort(order[events.lengths[order] >= least][:MOST])


@torch.no_grad()
def _information(vectors: Tensor, space: ItemSpace, t: int) -> float:
    """Q of the information form of users [U, D]: the prior adds 2 prior / t to every direction of the information."""
    shares = _numbers((vectors @ space.items.T).double().softmax(1))
    return information_q(_numbers(space.items), shares, 2 * space.prior / t)


@torch.no_grad()
def _recurrent_losses(recurrence: VectorModel, before: Tensor, seen: Tensor, after: Tensor) -> Floats:
    history = before if before.shape[1] else torch.full((len(before), 1), -1, device=before.device)
    size = max(CELLS // (history.shape[1] * 64), 1)
    parts = [history[low : low + size] for low in range(0, len(history), size)]
    users = torch.cat([recurrence.users(part.to(recurrence.device)) for part in parts])
    items = recurrence.vectors()
    return _losses(users, items, seen.to(users.device), after.to(users.device))


@torch.no_grad()
def _losses(vectors: Tensor, items: Tensor, seen: Tensor, after: Tensor) -> Floats:
    """The mean softmax loss of items [U, H] under each vector [U, D]; items in `seen` [U, t] do not compete [U]."""
    found = []
    for low in range(0, len(vectors), size := max(CELLS // len(items), 1)):
        part = slice(low, low + size)
        scores = vectors[part] @ items.T
        own = scores.gather(1, after[part])
        scores.scatter_(1, seen[part], -torch.inf)
        scores.scatter_(1, after[part], own)  # an item that is taken again competes
        found.append(_numbers(scores.logsumexp(1) - own.mean(1)))
    return np.concatenate(found)


def _numbers(values: Tensor) -> Floats:
    return values.double().cpu().numpy()


def _check(
    events: Interactions, space: ItemSpace, sizes: Sequence[int], grid: Sequence[int], held: int
) -> None:
    if events.n_items != len(space.items):
        raise DataError(
            f"threshold curve: expected item vectors of the {events.n_items} items of the log, got {len(space.items)}"
        )
    if not grid or min(grid) < 0 or not sizes or min(sizes) < 1 or held < 1:
        raise ConfigError(
            "threshold curve: expected halves of 1 or more events, 0 or more events before the predicted ones and 1 or "
            f"more of these, got sizes {list(sizes)}, grid {list(grid)} and held {held}"
        )
    if not space.prior > 0:
        raise ConfigError(f"threshold curve: expected a prior > 0, got {space.prior}")
