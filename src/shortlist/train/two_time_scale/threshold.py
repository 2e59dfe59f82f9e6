"""The threshold of activity by validation: both recurrences predict the same events, by the activity of their users."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import HeldOut
from shortlist.models.sequence.two_time_scale import TwoTimeScale

CANDIDATES = (5, 10, 20, 50, 100, 200, 400)
MOST_EVENTS = 4000  # of validation that are predicted twice
FEW_EVENTS = 200  # below which nothing is chosen
BATCH = 256

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """The mean gain of vectors of their own over the common start, by bins of training events, and the threshold."""

    bins: tuple[int, ...]  # first number of training events of each bin, minus 1: users with more are in it
    gains: tuple[float, ...]
    events: tuple[int, ...]
    threshold: int | None  # None: no user is better off with a vector of their own


def candidates(lengths: NDArray[np.int64], least_users: int = 30) -> tuple[int, ...]:
    """Thresholds above which enough users have training events, ascending."""
    return tuple(one for one in CANDIDATES if int((lengths > one).sum()) >= least_users)


def choose_threshold(active: Floats, inactive: Floats, counts: NDArray[np.int64], bins: Sequence[int]) -> Choice:
    """The start of the first bin from which a vector of their own is no worse in this and all larger bins.

    `active` and `inactive` [E] are the gains of the same events by both recurrences, `counts` [E] the training events
    of their users. The means of the bins are smoothed to an ascending curve first.
    """
    place = np.searchsorted(np.asarray(bins), counts, side="left") - 1  # bin i: bins[i] < count <= bins[i + 1]
    inside = place >= 0
    size = np.bincount(place[inside], minlength=len(bins)).astype(np.float64)
    total = np.bincount(place[inside], (active - inactive)[inside], minlength=len(bins))
    used = size > 0
    mean = np.divide(total, size, out=np.zeros(len(bins)), where=used)
    smooth = ascending(mean[used], size[used])
    good = np.flatnonzero(smooth >= 0)
    threshold = int(np.asarray(bins)[used][good[0]]) if len(good) else None
    return Choice(tuple(bins), tuple(mean.tolist()), tuple(size.astype(int).tolist()), threshold)


def ascending(values: Floats, weights: Floats) -> Floats:
    """The ascending values nearest to these in weighted squares (pool adjacent violators)."""
    blocks: list[list[float]] = []  # mean, weight, number
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            last, before = blocks.pop(), blocks[-1]
            weight = before[1] + last[1]
            before[:] = [(before[0] * before[1] + last[0] * last[1]) / weight, weight, before[2] + last[2]]
    return np.array([mean for mean, _, number in blocks for _ in range(int(number))])


def event_requests(valid: HeldOut, most: int, seed: int) -> HeldOut:
    """Held-out events as requests of their own, at most so many of them, at random: the history ends before each."""
    lengths = valid.stops - valid.cuts
    owner = np.repeat(np.arange(len(valid)), lengths)
    at = np.arange(len(owner)) + np.repeat(valid.cuts - (lengths.cumsum() - lengths), lengths)
    chosen = np.sort(np.random.default_rng((seed, 18)).permutation(len(at))[:most])
    return HeldOut(valid.events, valid.starts[owner[chosen]], at[chosen], at[chosen] + 1)


@torch.no_grad()
def reciprocal_ranks(model: TwoTimeScale, requests: HeldOut, as_new: bool) -> Floats:
    """1 / rank of the event of each request [E]; `as_new` reads every user from the common start."""
    order = np.argsort(requests.history_lengths(), kind="stable")  # little padding in a batch
    found = np.empty(len(requests))
    items = model.vectors()
    for at in range(0, len(order), BATCH):
        rows = order[at : at + BATCH]
        part = requests.take(rows)
        query = part.query(width=max(int(part.history_lengths().max()), 1)).to(model.device)
        target = torch.from_numpy(part.events.items[part.cuts].astype(np.int64)).to(model.device)
        scores = model.users(query.history, None if as_new else query.user) @ items.T
        own = scores.gather(1, target[:, None])
        rank = 1 + (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
        found[rows] = (1 / rank).double().cpu().numpy()
    return found
