"""A small model with users of both groups, stores for it, events, and the states event by event as the oracle."""

from itertools import chain

import numpy as np
import torch

from shortlist.data import Vocabulary
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.state import EventLog, StateSettings, UserEvent, UserHistories, UserStateStore
from shortlist.state.events.event import user_key

ITEMS, WIDTH = 30, 8
HISTORIES = ([1, 2, 3], [4, 5, 6, 7], [], [9, 8, 7, 6, 5], [1], [2, 2])
USERS = Vocabulary.of([f"u{user}" for user in range(len(HISTORIES))])
CATALOGUE = Vocabulary.of([100 + row for row in range(ITEMS)])
NOW = 10**12
SECOND = 1000
STORAGES = ("fp32", "fp16", "int8")
THRESHOLD, LAST = 3, 2


def model(readout="anchored", seed=0, **sizes):
    """Users 1 and 3 are active; the 2 first events are in their vectors."""
    torch.manual_seed(seed)
    config = TwoTimeScaleConfig(
        **{"n_items": ITEMS, "n_users": len(HISTORIES), "n_active": 2, "width": WIDTH, "readout": readout}
        | {"threshold": THRESHOLD, "last": LAST}
        | sizes
    )
    made = TwoTimeScale(config).eval()
    with torch.no_grad():
        for weight in (*made.parameters(), made.items, made.own, made.mean):
            weight.normal_(std=0.5)
        for at, user in enumerate((1, 3)[: config.n_active]):
            made.own_row[user] = at
        made.base.fill_(2)
    return made


def histories(lists=HISTORIES):
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    return UserHistories(torch.from_numpy(starts), torch.tensor(list(chain(*lists)), dtype=torch.int64))


def make_store(which=None, log=None, version="one", since_ms=0, **settings):
    which = model() if which is None else which
    return UserStateStore(
        which, USERS, CATALOGUE, histories(), version, StateSettings(**settings), log or EventLog(), since_ms
    )


def event(user="u0", item=100, seconds=0, number=None):
    return UserEvent(user, item, int(seconds * SECOND), seconds if number is None else number)


def random_events(count, users=("u0", "u1", "u3", "new", 7), seed=0, spacing=1.0):
    """Events in the order of time, with ids that do not ascend."""
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(10 * count)[:count]
    return [
        UserEvent(
            users[rng.integers(len(users))],
            int(100 + rng.integers(ITEMS)),
            int(at * spacing * SECOND),
            int(number),
        )
        for at, number in enumerate(numbers)
    ]


def applied(store, events, size=None):
    """All events in batches of a size."""
    size = size or max(len(events), 1)
    for at in range(0, len(events), size):
        store.apply(events[at : at + size], NOW)
    return store


def in_order(events):
    """Events once each, by the order of the states."""
    once = {(one.user_id, one.event_id): one for one in events}
    return sorted(once.values(), key=lambda one: (one.time_ms, one.event_id))


@torch.no_grad()
def by_hand(which, user, events, row=None):
    """The vector of a user after events, one step of torch after the other."""
    row = USERS.row(user) if row is None else row
    users, history = torch.tensor([row]), list(HISTORIES[row]) if row >= 0 else []
    state = which.starts(users)
    items = history + [CATALOGUE.row(one.item_id) for one in in_order(events) if one.user_id == user]
    for item in items[int(which.base_events(users)) :]:
        state = which.step(state, torch.tensor([item]), users)
    return which.readout(state, torch.tensor(items[-1:] or [-1]), users)[0]


def bits(store, users=("u0", "u1", "u2", "u3", "new", 7), version=None):
    """The bytes of the records of users with live events, without the number of the version.

    User vectors are products, which round in other ways on other machines; states do not.
    """
    store.query(list(users), version)
    table = store._tables[version or store.version]
    numbers = [store.log.number(user_key(user)) for user in users]
    records = table.records.values[[number for number in numbers if number >= 0]].copy()
    records["model_version"] = 0
    return records.tobytes()
