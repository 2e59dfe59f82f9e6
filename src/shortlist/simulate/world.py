"""A world with a known truth: what every user would take of every item, at any time."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Query
from shortlist.errors import DataError
from shortlist.simulate.respond import Outcomes, draw

DAY = 86_400_000  # milliseconds
CHOOSY = 20.0  # an item picked 20 times as often as one at random is taken every second time it is looked at

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """The constants of nature of a world; each at 0 switches its effect off."""

    drift: float = 0.5  # how far interests have moved when a user leaves, 1 = to entirely new ones
    trend: float = 0.8  # how strongly categories come into and out of fashion (log)
    freshness: float = 2.5  # how much more a new item is taken (log), halved every `half_life` days
    half_life: float = 60.0
    momentum: float = 0.4  # how often the next item is of the category just met
    closeness: float = 1.5  # how much more an item is taken that is like the one just met (log)
    taste: float = 1.2  # how much personal taste decides within a category (log)


@dataclass(frozen=True, eq=False)
class World:
    """Users, items and the law by which the ones pick the others; build with `make_world`.

    The chance that user u picks item i of category c at time t after item j is proportional to
    share(u, c, t, j) · appeal(i) · exp(taste(u, t) · v_i + closeness · v_i · v_j + freshness(i, t)), and is
    nothing before i is born. Rows are those of the data sets made from the world; times are milliseconds.
    """

    seed: int
    start: int  # when the log begins
    days: float
    law: Law
    categories: Rows  # [I]
    vectors: Floats  # [I, D] unit length
    appeal: Floats  # [I] sums to 1 within each category
    births: Rows  # [I]
    interests: Floats  # [2, U, C] shares of the categories as a user joins and leaves
    tastes: Floats  # [2, U, D]
    activity: Floats  # [U] sums to 1
    arrivals: Floats  # [U] when a user joins, as a share of the world's time
    stays: Floats  # [U] for how long
    phases: Floats  # [C] where each category stands in its cycle of fashion

    @property
    def n_users(self) -> int:
        return len(self.activity)

    @property
    def n_items(self) -> int:
        return len(self.categories)

    @property
    def end(self) -> int:
        """When the log ends."""
        return self.start + int(self.days * DAY)

    def affinity(
        self, users: Rows, items: Rows, times: Rows, after: Rows | None = None
    ) -> NDArray[np.float64]:
        """The true probability that a user who looks at an item at a time takes it; items [B] or [B, K].

        `after` [B] is the item met just before, -1 for none. The order by affinity is the order by chance to
        be picked: affinity = w / (w + 20), w being that chance over the chance of an item picked at random.
        """
        self._check(users, items)
        after = np.full(len(users), -1) if after is None else after
        grid = items.reshape(len(users), -1)  # [B, K]
        shares = self.shares(users, times, after)
        lure = np.take_along_axis(shares, self.categories[grid], axis=1) * self.appeal[grid] * self.n_items
        odds = lure * np.exp(self.pull(users, grid, times, after).astype(np.float64)) / CHOOSY
        return np.asarray(odds / (1 + odds)).reshape(items.shape)

    def best(self, users: Rows, time: int, k: int) -> Rows:
        """The k items each user would take most likely [B, k], lower rows first at ties, -1 past the born."""
        everything = np.arange(self.n_items)[None, :].repeat(len(users), axis=0)
        truth = self.affinity(users, everything, np.full(len(users), time))
        order = np.argsort(-truth, axis=1, kind="stable")[:, :k]
        return np.where(np.take_along_axis(truth, order, axis=1) > 0, order, -1)

    def respond(self, query: Query, items: torch.Tensor, seed: int = 0) -> Outcomes:
        """What the users do with slates of item rows [B, K], -1 for an empty place."""
        rows = items.numpy()
        after = query.history[:, -1].numpy() if query.history.shape[1] else None
        taken = self.affinity(query.user.numpy(), rows.clip(min=0), query.time.numpy(), after)
        return draw(np.where(rows >= 0, taken, 0.0), query.seed.numpy(), seed)

    def shares(self, users: Rows, times: Rows, after: Rows) -> Floats:
        """How attention divides over the categories [B, C]: interest, fashion, and what was just met."""
        age = self.age(times)[:, None]  # [B, 1]
        shares = self._between(self.interests, users, times)
        shares = shares * np.exp(self.law.trend * np.sin(2 * np.pi * (age + self.phases)))  # one cycle
        shares /= shares.sum(axis=1, keepdims=True)
        momentum = np.where(after >= 0, self.law.momentum, 0.0)[:, None]
        same = np.arange(len(self.phases)) == self.categories[after][:, None]
        return np.asarray((1 - momentum) * shares + momentum * same, np.float32)

    def pull(self, users: Rows, items: Rows, times: Rows, after: Rows) -> Floats:
        """What draws a user to items [B, K] beside their category and their appeal, as a logarithm [B, K]."""
        liked = self._between(self.tastes, users, times)  # [B, D]
        liked += self.law.closeness * np.where(after[:, None] >= 0, self.vectors[after], 0)
        similarity = np.einsum("bd,bkd->bk", liked, self.vectors[items])
        days = (times[:, None] - self.births[items]) / DAY
        fresh = self.law.freshness * np.exp2(-np.maximum(days, 0) / self.law.half_life)
        return np.where(days >= 0, similarity + fresh, -np.inf).astype(np.float32)

    def age(self, times: Rows) -> Floats:
        """The age of the world at a time, 0 as it begins and 1 from its end on."""
        return ((times - self.start) / (self.days * DAY)).clip(0, 1).astype(np.float32)

    def _between(self, two: Floats, users: Rows, times: Rows) -> Floats:
        """Where a user stands between the first and the last of two states [B, ...]."""
        lived = ((self.age(times) - self.arrivals[users]) / self.stays[users]).clip(0, 1)
        moved = self.law.drift * lived[:, None]
        return np.asarray((1 - moved) * two[0, users] + moved * two[1, users], np.float32)

    def _check(self, users: Rows, items: Rows) -> None:
        for rows, count, what in ((users, self.n_users, "user"), (items, self.n_items, "item")):
            if rows.size and (rows.min() < 0 or rows.max() >= count):
                wrong = rows.min() if rows.min() < 0 else rows.max()
                raise DataError(f"world: expected {what} rows from 0 to {count - 1}, got {wrong}")
