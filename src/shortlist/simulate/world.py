"""A simulated world: the true click probability of every user, item and time."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Query
from shortlist.errors import DataError
from shortlist.simulate.respond import Outcomes, sample_outcomes
from shortlist.simulate.successors import successor_shares

DAY = 86_400_000  # milliseconds
CHOOSY = 20.0  # an item chosen 20 times as often as a random one has click probability 1/2

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ChoiceModel:
    """Parameters of user choice in a world; 0 switches an effect off."""

    drift: float = 0.5  # how far interests have moved at departure; 1 = entirely new ones
    trend: float = 0.8  # amplitude of the popularity cycle of categories (log)
    freshness: float = 2.5  # bonus of a new item (log), halved every `half_life` days
    half_life: float = 60.0
    momentum: float = 0.4  # probability of staying in the category of the last item
    closeness: float = 1.5  # bonus of similarity to the last item (log)
    taste: float = 1.2  # weight of personal taste within a category (log)
    follow: float = 0.0  # probability that the next item is a successor of the last one


@dataclass(frozen=True, eq=False)
class World:
    """Users, items and the choice model; build with `make_world`.

    The probability that user u chooses item i of category c at time t after item j is proportional to
    share(u, c, t, j) · appeal(i) · exp(taste(u, t) · v_i + closeness · v_i · v_j + freshness(i, t)), and is 0
    before the release of i. With probability `follow` the choice is one of the successors of j instead, the first
    one most often. Rows are those of the data sets simulated from the world; times are milliseconds.
    """

    seed: int
    start: int  # start of the log
    days: float
    choice_model: ChoiceModel
    categories: Rows  # [I]
    vectors: Floats  # [I, D] unit length
    appeal: Floats  # [I] sums to 1 within each category
    release_times: Rows  # [I]
    interests: Floats  # [2, U, C] category shares at arrival and departure
    tastes: Floats  # [2, U, D] at arrival and departure
    activity: Floats  # [U] sums to 1
    arrivals: Floats  # [U] time of arrival as a share of the log
    lifetimes: Floats  # [U] time until departure as a share of the log
    phases: Floats  # [C] phase of each category in its popularity cycle
    successors: Rows = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # [I, S] likeliest first

    @property
    def n_users(self) -> int:
        return len(self.activity)

    @property
    def n_items(self) -> int:
        return len(self.categories)

    @property
    def end(self) -> int:
        """End of the log."""
        return self.start + int(self.days * DAY)

    def affinity(
        self, users: Rows, items: Rows, times: Rows, after: Rows | None = None
    ) -> NDArray[np.float64]:
        """The true probability that a user clicks an examined item at a time; items [B] or [B, K].

        `after` [B] is the last item of the history, -1 for none. Affinity is monotone in the choice probability:
        affinity = w / (w + 20), where w is the choice probability relative to a random item.
        """
        self._check(users, items)
        after = np.full(len(users), -1) if after is None else after
        grid = items.reshape(len(users), -1)  # [B, K]
        shares = self.shares(users, times, after)
        weight = np.take_along_axis(shares, self.categories[grid], axis=1) * self.appeal[grid] * self.n_items
        odds = weight * np.exp(self.utility(users, grid, times, after).astype(np.float64)) / CHOOSY
        if self.choice_model.follow:
            released = self.release_times[grid] <= times[:, None]
            following = released * self.n_items * successor_shares(self.successors, grid, after) / CHOOSY
            follow = np.where(after >= 0, self.choice_model.follow, 0.0)[:, None]
            odds = (1 - follow) * odds + follow * following
        return np.asarray(odds / (1 + odds)).reshape(items.shape)

    def best(self, users: Rows, time: int, k: int) -> Rows:
        """The k items with the highest affinity [B, k], ties by lower row, -1 where no item is released."""
        everything = np.arange(self.n_items)[None, :].repeat(len(users), axis=0)
        affinity = self.affinity(users, everything, np.full(len(users), time))
        order = np.argsort(-affinity, axis=1, kind="stable")[:, :k]
        return np.where(np.take_along_axis(affinity, order, axis=1) > 0, order, -1)

    def respond(self, query: Query, items: torch.Tensor, seed: int = 0) -> Outcomes:
        """Responses to slates of item rows [B, K], -1 for an empty position."""
        rows = items.numpy()
        after = query.history[:, -1].numpy() if query.history.shape[1] else None
        affinity = self.affinity(query.user.numpy(), rows.clip(min=0), query.time.numpy(), after)
        return sample_outcomes(np.where(rows >= 0, affinity, 0.0), query.seed.numpy(), seed)

    def shares(self, users: Rows, times: Rows, after: Rows) -> Floats:
        """Category shares [B, C] from interests, trend and the last item."""
        age = self.age(times)[:, None]  # [B, 1]
        shares = self._between(self.interests, users, times)
        shares = shares * np.exp(
            self.choice_model.trend * np.sin(2 * np.pi * (age + self.phases))
        )  # one cycle
        shares /= shares.sum(axis=1, keepdims=True)
        momentum = np.where(after >= 0, self.choice_model.momentum, 0.0)[:, None]
        same = np.arange(len(self.phases)) == self.categories[after][:, None]
        return np.asarray((1 - momentum) * shares + momentum * same, np.float32)

    def utility(self, users: Rows, items: Rows, times: Rows, after: Rows) -> Floats:
        """Log-utility of items [B, K] beyond category and appeal [B, K]."""
        taste = self._between(self.tastes, users, times)  # [B, D]
        taste += self.choice_model.closeness * np.where(after[:, None] >= 0, self.vectors[after], 0)
        similarity = np.einsum("bd,bkd->bk", taste, self.vectors[items])
        days = (times[:, None] - self.release_times[items]) / DAY
        freshness = self.choice_model.freshness * np.exp2(-np.maximum(days, 0) / self.choice_model.half_life)
        return np.where(days >= 0, similarity + freshness, -np.inf).astype(np.float32)

    def age(self, times: Rows) -> Floats:
        """Time as a share of the log: 0 at its start, 1 from its end on."""
        return ((times - self.start) / (self.days * DAY)).clip(0, 1).astype(np.float32)

    def _between(self, states: Floats, users: Rows, times: Rows) -> Floats:
        """Interpolation of a user's state between arrival and departure [B, ...]."""
        elapsed = ((self.age(times) - self.arrivals[users]) / self.lifetimes[users]).clip(0, 1)
        moved = self.choice_model.drift * elapsed[:, None]
        return np.asarray((1 - moved) * states[0, users] + moved * states[1, users], np.float32)

    def _check(self, users: Rows, items: Rows) -> None:
        for rows, count, what in ((users, self.n_users, "user"), (items, self.n_items, "item")):
            if rows.size and (rows.min() < 0 or rows.max() >= count):
                row = rows.min() if rows.min() < 0 else rows.max()
                raise DataError(f"world: expected {what} rows from 0 to {count - 1}, got {row}")
