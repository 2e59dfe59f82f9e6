"""Losses of a funnel by segment: user activity, item popularity, category, and order of the relevant items."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.errors import DataError
from shortlist.evaluate.losses import Bools, Ints, StageTrace, decompose
from shortlist.metrics.estimate import MIN_USERS, Estimate, share

NEW_USER = 20  # events: users with no more are new
NEW_ITEM = 5  # events: items with fewer are new
HEAD, TAIL = 0.5, 0.9  # shares of all events: head up to the first, tail from the second
CATEGORIES = 8  # the largest; the others are one segment

Segments = Mapping[tuple[str, str], Bools]  # (kind, name) -> which pairs [n]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every (request, relevant item) of held-out requests, request after request, in the order of the events."""

    request: Ints  # [n]
    user: Ints  # [n]
    item: Ints  # [n]
    history_length: Ints  # [n] events before the request
    place: Ints  # [n] 0 for the next item, 1 for the one after it, ...

    @classmethod
    def of(cls, held_out: HeldOut) -> "Pairs":
        """The pairs of held-out requests, in the order of `HeldOut.relevant`."""
        relevant = held_out.relevant().numpy()
        request, place = np.nonzero(relevant >= 0)
        lengths = held_out.history_lengths()[request]
        return cls(request, held_out.users[request], relevant[request, place], lengths, place)

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Segment:
    """What a pipeline returns of the relevant items of one segment, and where it loses the others."""

    kind: str  # "users", "items", "category" or "recency"
    name: str
    users: int
    relevant: int
    recall: Estimate  # mean over the users of the segment, of their relevant items in it
    lost: tuple[float, ...]  # by stage, of all relevant items of the segment
    few: bool  # too few users for an interval
    precision_at_1: Estimate | None = None  # for segments of users


Firsts = tuple[
    Ints, Bools
]  # the user of each request [C], and whether the first item of its slate is relevant [C]


def by_segment(
    trace: StageTrace,
    pairs: Pairs,
    train: Interactions,
    catalog: Catalog,
    seed: int = 0,
    firsts: Firsts | None = None,
) -> tuple[Segment, ...]:
    """Recall and losses within each segment; `train` are the events the pipeline was trained on.

    With `firsts`, segments of users have a precision@1. Intervals are a bootstrap over users; a segment with too few
    users for one is marked `few`.
    """
    if len(trace.user) != len(pairs) or not np.array_equal(trace.user, pairs.user):
        raise DataError(
            f"segments: expected the pairs of the trace in its order, got {len(pairs)} pairs for {len(trace.user)}"
        )
    segments = segments_of(pairs, train, catalog)
    return tuple(_segment(*key, trace, pairs, mask, seed, firsts) for key, mask in segments.items())


def segments_of(pairs: Pairs, train: Interactions, catalog: Catalog) -> Segments:
    """All segments that hold any pair; those of one kind hold every pair once, with two exceptions.

    Users in training or not are a second division of users, and an item is in the segment of each of its categories.
    """
    parts: dict[tuple[str, str], Bools] = {}
    for kind, found in (
        ("users", activity(pairs)),
        ("users", _in_training(pairs, train)),
        ("items", _popularity(pairs.item, train)),
        ("category", _category(pairs.item, catalog)),
        ("recency", {"next item": pairs.place == 0, "later items": pairs.place > 0}),
    ):
        parts |= {(kind, name): mask for name, mask in found.items() if mask.any()}
    return parts


def activity(pairs: Pairs) -> dict[str, Bools]:
    """New users, and the others by activity: the lowest 30 %, the middle, the highest 30 % of history lengths."""
    users, at = np.unique(pairs.user, return_inverse=True)
    events = np.zeros(len(users), np.int64)
    np.maximum.at(events, at, pairs.history_length)
    old = events > NEW_USER
    low, high = np.quantile(events[old], [0.3, 0.7]) if old.any() else (0.0, 0.0)
    groups = {
        f"new: {NEW_USER} events or fewer": ~old,
        "few events": old & (events <= low),
        "some events": old & (events > low) & (events <= high),
        "most events": old & (events > high),
    }
    return {name: mask[at] for name, mask in groups.items()}


def _in_training(pairs: Pairs, train: Interactions) -> dict[str, Bools]:
    """Users with and without training events, if there are both."""
    known = np.isin(pairs.user, train.users)
    return {} if known.all() or not known.any() else {"in training": known, "not in training": ~known}


def _popularity(item: Ints, train: Interactions) -> dict[str, Bools]:
    """Items by training events: the head with half of all events, the middle, the tail with a tenth, and new items."""
    counts = train.popularity
    order = np.argsort(-counts, kind="stable")
    before = np.zeros(len(counts))
    # The share of events of all more popular items: the item that crosses the threshold belongs to the
    # more popular segment.
    before[order] = (counts[order].cumsum() - counts[order]) / max(int(counts.sum()), 1)
    inside = (item >= 0) & (item < len(counts))
    rows = np.where(inside, item, 0)
    events = np.where(inside, counts[rows] if len(counts) else 0, 0)
    share_before = before[rows] if len(counts) else np.ones(len(item))
    new = events < NEW_ITEM
    return {
        "head: half of all events": ~new & (share_before < HEAD),
        "middle": ~new & (share_before >= HEAD) & (share_before < TAIL),
        "tail: the last tenth": ~new & (share_before >= TAIL),
        f"new: fewer than {NEW_ITEM} events": new,
    }


def _category(item: Ints, catalog: Catalog) -> dict[str, Bools]:
    """The categories with the most pairs; nothing with a single category."""
    if len(catalog.categories) < 2:
        return {}
    inside = (item >= 0) & (item < len(catalog))
    lists = np.where(inside[:, None], catalog.category_lists[np.where(inside, item, 0)], -1)  # [n, C]
    sizes = np.bincount(lists[lists >= 0], minlength=len(catalog.categories))
    largest = [int(row) for row in np.argsort(-sizes, kind="stable")[:CATEGORIES] if sizes[row]]
    own = {
        str(catalog.categories.id(row)) or "without category": (lists == row).any(axis=1) for row in largest
    }
    return own | {"other categories": ~np.isin(lists, largest).any(axis=1)}


def _segment(
    kind: str, name: str, trace: StageTrace, pairs: Pairs, mask: Bools, seed: int, firsts: Firsts | None
) -> Segment:
    part = StageTrace(trace.alive[mask], trace.names, trace.user[mask], None, trace.rescue)
    losses = decompose(part)
    relevant = int(losses.alive[0])
    _, at, counts = np.unique(pairs.request[mask], return_inverse=True, return_counts=True)
    per_request = decompose(
        StageTrace(part.alive, part.names, part.user, 1 / counts[at], part.rescue)
    )  # every request counts the same, whatever the number of its relevant items
    return Segment(
        kind,
        name,
        len(losses.users),
        relevant,
        per_request.recall(seed),
        tuple(float(lost / relevant) if relevant else 0.0 for lost in losses.first_losses),
        len(losses.users) < MIN_USERS,
        None if firsts is None or kind != "users" else _precision_at_1(pairs.user[mask], firsts, seed),
    )


def _precision_at_1(users: Ints, firsts: Firsts, seed: int) -> Estimate:
    """The share of the requests of these users whose first item is relevant."""
    asked, first = firsts
    own = np.isin(asked, users)
    everyone, at = np.unique(asked[own], return_inverse=True)
    hits = np.bincount(at, weights=first[own], minlength=len(everyone))
    return share(hits, np.bincount(at, minlength=len(everyone)), seed)
