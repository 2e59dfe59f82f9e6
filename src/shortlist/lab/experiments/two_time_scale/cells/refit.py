"""Ranks where users get new own vectors as their events arrive: new ones are promoted, active ones refitted.

When the number of events of a user reaches a level, the first of which is that of a promotion and each other one twice
the one before, his vector is fitted to all but the last events with all item vectors frozen, and the active recurrence
replays the last ones. All weights stay as they were trained.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Interactions
from shortlist.evaluate.online import OnlineRanks, OnlineTest, ranks
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.models.state_model import Promotion
from shortlist.state.table.promotion import takes_own
from shortlist.train.two_time_scale.personal import ItemSpace, fitted

Positions = NDArray[np.int64]


def refitted_ranks(
    model: TwoTimeScale, test: OnlineTest, n_neg: int = 0, sampled_events: int | None = None
) -> OnlineRanks:
    """The ranks of a test; those without refitting for a model that promotes nobody."""
    found = ranks(model, test, n_neg, sampled_events=sampled_events)
    rule = model.promotion()
    if rule is None:
        return found
    first = first_level(rule)
    levels = levels_of(model, test, first)
    columns = [found.raw.copy(), found.excl.copy(), found.sampled.copy()]
    for level in np.unique(levels[levels >= 0]).tolist():
        rows = np.flatnonzero(levels == level)
        users = np.unique(test.users[rows])
        fresh = refitted(model, rule, test.events, users, first << level)
        own = replace(test.at(rows), train_counts=np.ones_like(test.train_counts))
        again = ranks(fresh, own, 0)
        columns[0][rows], columns[1][rows] = again.raw, again.excl
        drawn = ~np.isnan(found.sampled[rows])
        if drawn.any():
            columns[2][rows[drawn]] = ranks(fresh, own.at(np.flatnonzero(drawn)), n_neg).sampled
    return OnlineRanks(columns[0], columns[1], columns[2], found.n_items, found.n_neg)


def first_level(rule: Promotion) -> int:
    """The smallest number of events at which a user is promoted."""
    count = rule.threshold + 1
    while not takes_own(rule, count):
        count += 1
    return count


def levels_of(model: TwoTimeScale, test: OnlineTest, first: int) -> Positions:
    """The level of the vector before each event [n]: its fit is at first * 2^level events; -1: as it was trained."""
    before = test.event_numbers - 1
    levels = np.floor(np.log2(np.maximum(before, 1) / first) + 1e-9).astype(np.int64)
    active = model.active(torch.from_numpy(test.known_users).to(model.device)).cpu().numpy()
    trained = np.where(active, test.train_counts[test.users], 0)  # events that the vector may hold already
    fits = first * 2.0 ** np.maximum(levels, 0)
    return np.where((before >= first) & (fits > trained), levels, -1)


@torch.no_grad()
def refitted(
    model: TwoTimeScale, rule: Promotion, events: Interactions, users: Positions, count: int
) -> TwoTimeScale:
    """The same model in which only these users are active, with vectors of their first `count` events."""
    held = max(count - rule.last, 0)
    starts = events.starts[users]
    space = ItemSpace(model.items, rule.mean.to(model.items.device), rule.prior)
    own = fitted(events, starts, starts + held, space)
    config = replace(model.config, n_users=events.n_users, n_active=len(users))
    fresh = TwoTimeScale(config).to(model.device)
    kept = {"own", "own_row", "base"}
    fresh.load_state_dict({n: one for n, one in model.state_dict().items() if n not in kept}, strict=False)
    fresh.own.copy_(own)
    fresh.own_row[torch.from_numpy(users).to(model.device)] = torch.arange(len(users), device=model.device)
    fresh.base.fill_(held)
    return fresh.eval()
