"""A log that is delivered in any order and with repetitions, against its ordered single delivery."""

import time
from dataclasses import dataclass

import numpy as np

from shortlist.lab.bench.state.stream import NOW_MS, Size, Stream, empty_store, random_model, random_stream
from shortlist.progress import Progress
from shortlist.state import UserStateStore

BATCH = 256


@dataclass(frozen=True)
class Replay:
    """What the comparison found."""

    users: int
    different: int  # users whose records differ in a byte
    deliveries: int
    duplicates: int
    seconds_in_order: float  # processor time, with the last replays
    seconds_shuffled: float


def replayed(size: Size, seed: int, progress: Progress) -> Replay:
    """Deliver the same events once in order, and shuffled with random repetitions; compare the records of all users."""
    stream, model = random_stream(size, size.distinct, seed), random_model(size, seed)
    rng = np.random.default_rng(seed)
    again = rng.integers(0, size.distinct, size.replayed - size.distinct)
    order = rng.permutation(np.concatenate([np.arange(size.distinct), again]))
    stores, seconds, duplicates = list[UserStateStore](), list[float](), list[int]()
    for number, sent in enumerate((stream, stream.take(order))):
        progress("bench state: replay", number, 2)
        store, began = empty_store(model, size), time.process_time()
        duplicates.append(delivered(store, sent))
        for user in np.unique(stream.users).tolist():
            store.record(user)
        stores.append(store)
        seconds.append(time.process_time() - began)
    users = np.unique(stream.users).tolist()
    different = sum(stores[0].record(user) != stores[1].record(user) for user in users)
    return Replay(len(users), different, size.replayed, duplicates[1], *seconds)


def delivered(store: UserStateStore, stream: Stream) -> int:
    """Apply all events in batches; the number of duplicates."""
    duplicates = 0
    for at in range(0, len(stream.users), BATCH):
        part = slice(at, at + BATCH)
        users, items = stream.users[part].tolist(), stream.items[part].tolist()
        report = store.apply_columns(users, items, stream.times[part], stream.ids[part], NOW_MS)
        duplicates += report.duplicates
    return duplicates
