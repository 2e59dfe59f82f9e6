"""Make a world of drifting tastes: vectors of users and items, and the events that are drawn from them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Interactions
from shortlist.simulate.drift.settings import DriftSettings

CELLS = {"cpu": 1 << 20, "cuda": 1 << 26}  # probabilities of items at a time: on a CPU they stay in its cache
YEAR = 365 * 24 * 3600 * 1000  # milliseconds, the length of a log
START = 1_600_000_000_000  # of a log, in milliseconds since 1970

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DriftWorld:
    """Events, and what they were drawn from."""

    settings: DriftSettings
    events: Interactions
    item_vectors: Floats  # [N, d]
    bias: Floats  # [N]
    long: Floats  # [U, d] phi
    short: Floats  # [E, d] w, of the event at each position

    @cached_property
    def mean(self) -> Floats:
        """The mean of the users' long-term vectors [d]."""
        return np.asarray(self.long.mean(0))


def make_drift_world(settings: DriftSettings, seed: int, device: torch.device | str = "cpu") -> DriftWorld:
    """A world drawn from a seed. Items are drawn on the device; all randomness comes from the seed alone.

    The same seed gives the same events on every device, up to draws that lie within rounding of the border between two
    items.
    """
    tables, counts_rng, drift_rng, times_rng, draws = (np.random.default_rng((seed, at)) for at in range(5))
    item_vectors = _normal(tables, settings.items, settings.width, settings.item_norm / settings.width**0.5)
    bias = -settings.popularity * np.log(np.arange(1, settings.items + 1)).astype(np.float32)
    centre = _normal(tables, 1, settings.width, settings.centre)
    long = centre + _normal(tables, settings.users, settings.width, settings.spread)
    counts = event_counts(settings, counts_rng)
    short = short_term(counts, settings, drift_rng)
    owners = np.repeat(np.arange(settings.users, dtype=np.int32), counts)
    choice = Choice(_on(item_vectors, device), _on(bias, device))
    items = choice.draw(long, owners, short, draws.random(len(owners), dtype=np.float64))
    times = event_times(counts, settings.newcomers, times_rng)
    events = Interactions.of(owners, items, times, n_users=settings.users, n_items=settings.items)
    return DriftWorld(settings, events, item_vectors, bias, long, short)


def event_counts(settings: DriftSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """The number of events of every user [U]."""
    below = np.cumsum(settings.law)
    drawn = np.searchsorted(below[:-1], rng.random(settings.users), side="right")
    return np.asarray(settings.least + drawn, np.int64)


def short_term(counts: NDArray[np.int64], settings: DriftSettings, rng: np.random.Generator) -> Floats:
    """The short-term vector of every event, user after user [E, d]: an AR(1) process for each user.

    Event k of all users that have one is computed at once, for k = 1, 2, ..
    """
    starts = np.cumsum(counts) - counts
    vectors = _normal(rng, int(counts.sum()), settings.width, settings.drift)  # [E, d]
    scale = np.float32((1 - settings.rho**2) ** 0.5)
    longest_first = np.argsort(-counts, kind="stable")
    left = np.searchsorted(
        -counts[longest_first], -np.arange(1, counts.max() + 1), side="right"
    )  # users with k events
    begin = starts[longest_first]
    for number, users in enumerate(left[1:].tolist(), start=1):
        at = begin[:users] + number
        vectors[at] = settings.rho * vectors[at - 1] + scale * vectors[at]
    return vectors


def event_times(counts: NDArray[np.int64], newcomers: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ascending times of the events of every user [E]: uniform over the log, or from the time a newcomer joins.

    The sums of n + 1 exponential numbers, over the last one, are n sorted uniform numbers.
    """
    gaps = rng.standard_exponential(int(counts.sum()) + len(counts))
    ends = np.cumsum(counts + 1)  # each user has one more gap than events
    total = np.cumsum(gaps)
    before = np.concatenate([[0.0], total[ends[:-1] - 1]])
    inner = np.ones(len(gaps), bool)
    inner[ends - 1] = False
    owner = np.repeat(np.arange(len(counts)), counts)
    place = (total[inner] - before[owner]) / (total[ends - 1] - before)[owner]  # [E] in (0, 1)
    joins = np.where(rng.random(len(counts)) < newcomers, rng.uniform(0.5, 1.0, len(counts)), 0.0)[owner]
    return np.asarray(START + YEAR * (joins + (1 - joins) * place), np.int64)


@dataclass(frozen=True, eq=False)
class Choice:
    """Items and how users choose among them."""

    items: Tensor  # [N, d]
    bias: Tensor  # [N]

    def logits(self, vectors: Tensor) -> Tensor:
        """Log-probabilities up to a constant of every item for user vectors [b, d] -> [b, N]."""
        return torch.addmm(self.bias, vectors, self.items.T)

    def draw(
        self, long: Floats, owners: NDArray[np.int32], short: Floats, uniform: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """The item of every event [E]: the first one whose cumulative probability is above a uniform number.

        Items lie in blocks of about sqrt(N): the block of an item is found first, and then its place in the block.
        """
        device, width = self.items.device, math.isqrt(len(self.items) - 1) + 1
        padded, size = self._padded(width), max(CELLS[device.type] // len(self.items), 1)
        drawn = torch.empty(len(owners), dtype=torch.int32)
        for at in range(0, len(owners), size):
            part = slice(at, at + size)
            logits = padded.logits(_on(long[owners[part]] + short[part], device))
            logits -= logits.amax(1, keepdim=True)
            chances = logits.exp_().view(len(logits), -1, width)  # [b, blocks, width]
            below = chances.sum(2).cumsum(1, dtype=torch.float64)  # [b, blocks]
            edge = _on(uniform[part], device)[:, None] * below[:, -1:]
            block = _first_above(below, edge)
            edge -= torch.where(block > 0, below.gather(1, (block - 1).clamp(min=0)), 0.0)
            own = chances[torch.arange(len(block), device=device), block[:, 0]].cumsum(1, dtype=torch.float64)
            found = block * width + _first_above(own, edge)
            drawn[part] = found[:, 0].clamp(max=len(self.items) - 1).int().cpu()
        return np.asarray(drawn.numpy())

    def _padded(self, width: int) -> "Choice":
        """The same choice with items of probability 0 up to whole blocks."""
        missing = -len(self.items) % width
        bias = F.pad(self.bias, (0, missing), value=-torch.inf)
        return Choice(F.pad(self.items, (0, 0, 0, missing)), bias)


def _first_above(sums: Tensor, edge: Tensor) -> Tensor:
    """The first column of ascending sums [b, n] that is above an edge [b, 1], the last one if none is."""
    return torch.searchsorted(sums, edge, right=True).clamp(max=sums.shape[1] - 1)


def _normal(rng: np.random.Generator, rows: int, width: int, scale: float) -> Floats:
    return rng.standard_normal((rows, width), dtype=np.float32) * np.float32(scale)


def _on(values: NDArray[np.generic], device: torch.device | str) -> Tensor:
    return torch.from_numpy(values).to(device)
