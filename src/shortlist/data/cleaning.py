"""Filters of a log: duplicates, low weights, rare users and items; every removed event is counted by reason."""

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
class LogFilters:
    """Which events to remove; `core` repeats the two minimum counts until both hold (k-core)."""

    duplicates: bool = True
    min_weight: float | None = None
    min_user_events: int = 0
    min_item_events: int = 0
    core: bool = False


def apply_filters(dataset: Dataset, filters: LogFilters) -> tuple[Dataset, Mapping[str, int]]:
    """The filtered data set and the number of removed events by reason; users and items without events go too."""
    events, dropped = dataset.events, Counter[str]()
    keep = np.ones(len(events), bool)
    # Without times, equal (user, item) rows are separate events, not one event logged twice.
    if filters.duplicates and dataset.clock == "ms":
        keep = _remove(keep, "exact duplicate", duplicates(events), dropped)
    if filters.min_weight is not None:
        low = events.weights < filters.min_weight
        keep = _remove(keep, f"weight below {filters.min_weight:g}", low, dropped)
    keep = _remove_rare(events, keep, filters, dropped)
    if not keep.any():
        raise DataError(f"{dataset.name}: no event is left ({format_counts(dropped)}); relax the filters")
    return (select_events(dataset, keep) if dropped else dataset), dict(dropped)


def duplicates(events: Interactions) -> Mask:
    """Events with the user, item and time of an earlier event [E]."""
    same = (events.users[1:] == events.users[:-1]) & (events.times[1:] == events.times[:-1])
    at = np.flatnonzero(np.append(same, False) | np.append(False, same))  # only these share user and time
    order = at[np.lexsort((at, events.items[at], events.times[at], events.users[at]))]
    columns = (events.users[order], events.items[order], events.times[order])
    repeated = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    mask = np.zeros(len(events), bool)
    mask[order[1:][repeated]] = True
    return mask


def select_events(dataset: Dataset, keep: Mask) -> Dataset:
    """The events under a mask; users and items without events lose their rows."""
    events = dataset.events.where(keep)
    users, items = events.lengths > 0, events.popularity > 0
    return replace(
        dataset,
        users=_select_ids(dataset.users, users),
        events=_renumber(events, users, items),
        catalog=Catalog(_select_ids(dataset.items, items), _select_rows(dataset.catalog.table, items)),
        user_table=_select_rows(dataset.user_table, users),
    )


def format_counts(dropped: Mapping[str, int]) -> str:
    """Counts with their reasons in one line."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())


def _remove_rare(events: Interactions, keep: Mask, filters: LogFilters, dropped: Counter[str]) -> Mask:
    items, users = filters.min_item_events, filters.min_user_events
    changed = True
    while changed:
        before = keep
        keep = _remove(
            keep, f"item with fewer than {items} events", _rare(events.items, keep, items), dropped
        )
        keep = _remove(
            keep, f"user with fewer than {users} events", _rare(events.users, keep, users), dropped
        )
        changed = filters.core and not np.array_equal(before, keep)
    return keep


def _remove(keep: Mask, reason: str, out: Mask, dropped: Counter[str]) -> Mask:
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


def _select_ids(vocabulary: Vocabulary, keep: Mask) -> Vocabulary:
    return Vocabulary(vocabulary.ids.filter(pa.array(keep)))


def _select_rows(table: pa.Table, keep: Mask) -> pa.Table:
    return table.filter(pa.array(keep)) if table.num_columns else table


def _renumber(events: Interactions, users: Mask, items: Mask) -> Interactions:
    new_users, new_items = ((np.cumsum(kept) - 1).astype(np.int32) for kept in (users, items))
    return replace(
        events,
        users=new_users[events.users],
        items=new_items[events.items],
        n_users=int(users.sum()),
        n_items=int(items.sum()),
    )
