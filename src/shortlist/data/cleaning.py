"""What leaves a log after it was read: repeats, weak events, rare users and items, each counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data.catalog import Catalog
from shortlist.data.dataset import Dataset
from shortlist.data.interactions import Interactions
from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import DataError

Mask = NDArray[np.bool_]
Rows = NDArray[np.int32]


@dataclass(frozen=True)
class Filters:
    """Which events to leave out; `core` repeats the two minimum counts until both hold."""

    duplicates: bool = True
    min_weight: float | None = None
    min_user_events: int = 0
    min_item_events: int = 0
    core: bool = False


def sieve(dataset: Dataset, filters: Filters) -> tuple[Dataset, Mapping[str, int]]:
    """The data set that remains, without users and items that lost all events, and the losses by reason."""
    events, dropped = dataset.events, Counter[str]()
    keep = np.ones(len(events), bool)
    # Where only the order is known, a repeat is another event, not the same one twice.
    if filters.duplicates and dataset.clock == "ms":
        keep = _less(keep, "exact duplicate", duplicates(events), dropped)
    if filters.min_weight is not None:
        weak = events.weights < filters.min_weight
        keep = _less(keep, f"weight below {filters.min_weight:g}", weak, dropped)
    keep = _common(events, keep, filters, dropped)
    if not keep.any():
        raise DataError(f"{dataset.name}: no event is left ({told(dropped)}); ask for less")
    return (narrowed(dataset, keep) if dropped else dataset), dict(dropped)


def duplicates(events: Interactions) -> Mask:
    """Events that repeat an earlier one: same user, same item, same time."""
    same = (events.users[1:] == events.users[:-1]) & (events.times[1:] == events.times[:-1])
    at = np.flatnonzero(np.append(same, False) | np.append(False, same))  # only these share user and time
    order = at[np.lexsort((at, events.items[at], events.times[at], events.users[at]))]
    columns = (events.users[order], events.items[order], events.times[order])
    again = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    found = np.zeros(len(events), bool)
    found[order[1:][again]] = True
    return found


def narrowed(dataset: Dataset, keep: Mask) -> Dataset:
    """The events under a mask; users and items without events lose their rows."""
    events = dataset.events.where(keep)
    users, items = events.lengths > 0, events.popularity > 0
    return replace(
        dataset,
        users=_some(dataset.users, users),
        events=_renumbered(events, users, items),
        catalog=Catalog(_some(dataset.items, items), _filtered(dataset.catalog.table, items)),
        people=_filtered(dataset.people, users),
    )


def told(dropped: Mapping[str, int]) -> str:
    """Reasons and counts in one line."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())


def _common(events: Interactions, keep: Mask, filters: Filters, dropped: Counter[str]) -> Mask:
    items, users = filters.min_item_events, filters.min_user_events
    again = True
    while again:
        before = keep
        keep = _less(keep, f"item with fewer than {items} events", _rare(events.items, keep, items), dropped)
        keep = _less(keep, f"user with fewer than {users} events", _rare(events.users, keep, users), dropped)
        again = filters.core and not np.array_equal(before, keep)
    return keep


def _less(keep: Mask, reason: str, out: Mask, dropped: Counter[str]) -> Mask:
    if count := int(np.count_nonzero(keep & out)):
        dropped[reason] += count
        return keep & ~out
    return keep


def _rare(rows: Rows, keep: Mask, least: int) -> Mask:
    if least <= 1:
        return np.zeros(len(rows), bool)
    counts = np.bincount(rows[keep], minlength=int(rows.max(initial=-1)) + 1)
    rare: Mask = counts[rows] < least
    return rare


def _some(vocabulary: Vocabulary, keep: Mask) -> Vocabulary:
    return Vocabulary(vocabulary.ids.filter(pa.array(keep)))


def _filtered(table: pa.Table, keep: Mask) -> pa.Table:
    return table.filter(pa.array(keep)) if table.num_columns else table


def _renumbered(events: Interactions, users: Mask, items: Mask) -> Interactions:
    new_users, new_items = ((np.cumsum(kept) - 1).astype(np.int32) for kept in (users, items))
    return replace(
        events,
        users=new_users[events.users],
        items=new_items[events.items],
        n_users=int(users.sum()),
        n_items=int(items.sum()),
    )
