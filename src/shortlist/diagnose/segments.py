"""Losses of a funnel by kind of user, kind of item, category, and how soon an item was met."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.errors import DataError
from shortlist.evaluate.losses import Bools, Ints, StageTrace, decompose
from shortlist.metrics.estimate import FEWEST, Estimate, share

NEW_USER = 20  # events: users with no more are new
NEW_ITEM = 5  # events: items with fewer are new
HEAD, TAIL = 0.5, 0.9  # shares of all events: head up to the first, tail from the second
CATEGORIES = 8  # the largest; the others are one segment

Segments = Mapping[tuple[str, str], Bools]  # (kind, name) -> which pairs [n]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every (request, wanted item) of some cases, request after request, in the order in which items were met."""

    user: Ints  # [n]
    item: Ints  # [n]
    seen: Ints  # [n] events the request sees
    place: Ints  # [n] 0 for what came next, 1 for what came after it, ...

    @classmethod
    def of(cls, cases: HeldOut) -> "Pairs":
        """The pairs of cases, as `Cases.truth` lists them."""
        truth = cases.relevant().numpy()
        case, place = np.nonzero(truth >= 0)
        return cls(cases.users[case], truth[case, place], cases.history_lengths()[case], place)

    def __len__(self) -> int:
        return len(self.user)


Firsts = tuple[Ints, Bools]  # whose request it is [C], and whether the first item of its slate is wanted [C]


def by_segment(
    trace: StageTrace,
    pairs: Pairs,
    learned: Interactions,
    catalog: Catalog,
    seed: int = 0,
    firsts: Firsts | None = None,
) -> list[dict[str, Any]]:
    """What every stage lost within each segment; `learned` is what the pipeline was trained on.

    With `firsts`, segments of users also tell how often the first item is wanted. Intervals are a bootstrap over users;
    a segment with too few users for one is marked `few`.
    """
    if len(trace.user) != len(pairs) or not np.array_equal(trace.user, pairs.user):
        raise DataError(
            f"segments: expected the pairs of the trace in its order, got {len(pairs)} pairs for {len(trace.user)}"
        )
    known = segments_of(pairs, learned, catalog)
    return [
        _told(kind, name, trace, mask, seed) | _first(kind, pairs.user[mask], firsts, seed)
        for (kind, name), mask in known.items()
    ]


def many_note(count: int) -> str:
    """What one must know before one points at the worst of several segments."""
    return (
        f"{count} segments were looked at, each with an interval of its own: about one interval in twenty misses by "
        "chance, so the worst of many segments tends to look worse than it is."
    )


def segments_of(pairs: Pairs, learned: Interactions, catalog: Catalog) -> Segments:
    """All segments that hold any pair; those of one kind hold every pair once, but for what training knows of users."""
    parts: dict[tuple[str, str], Bools] = {}
    for kind, found in (
        ("users", _activity(pairs)),
        ("users", _learned_from(pairs, learned)),
        ("items", _popularity(pairs.item, learned)),
        ("category", _category(pairs.item, catalog)),
        ("recency", {"what came next": pairs.place == 0, "what came later": pairs.place > 0}),
    ):
        parts |= {(kind, name): mask for name, mask in found.items() if mask.any()}
    return parts


def _activity(pairs: Pairs) -> dict[str, Bools]:
    """New users, and the deciles of the others' events in three groups; a user counts with the most events seen."""
    users, at = np.unique(pairs.user, return_inverse=True)
    events = np.zeros(len(users), np.int64)
    np.maximum.at(events, at, pairs.seen)
    old = events > NEW_USER
    low, high = np.quantile(events[old], [0.3, 0.7]) if old.any() else (0.0, 0.0)
    groups = {
        f"new: {NEW_USER} events or fewer": ~old,
        "few events": old & (events <= low),
        "some events": old & (events > low) & (events <= high),
        "most events": old & (events > high),
    }
    return {name: mask[at] for name, mask in groups.items()}


def _learned_from(pairs: Pairs, learned: Interactions) -> dict[str, Bools]:
    """Users the pipeline learned from and others, where there are both."""
    known = np.isin(pairs.user, learned.users)
    return {} if known.all() or not known.any() else {"learned from": known, "unknown to training": ~known}


def _popularity(item: Ints, learned: Interactions) -> dict[str, Bools]:
    """Items by the events training saw: the few that make half of them, the middle, the last tenth, new ones."""
    counts = learned.popularity
    order = np.argsort(-counts, kind="stable")
    before = np.zeros(len(counts))
    # The share of events of all more popular items: the item that crosses a line still belongs to what it completes.
    before[order] = (counts[order].cumsum() - counts[order]) / max(int(counts.sum()), 1)
    inside = (item >= 0) & (item < len(counts))
    rows = np.where(inside, item, 0)
    many = np.where(inside, counts[rows] if len(counts) else 0, 0)
    share = before[rows] if len(counts) else np.ones(len(item))
    new = many < NEW_ITEM
    return {
        "head: half of all events": ~new & (share < HEAD),
        "middle": ~new & (share >= HEAD) & (share < TAIL),
        "tail: the last tenth": ~new & (share >= TAIL),
        f"new: fewer than {NEW_ITEM} events": new,
    }


def _category(item: Ints, catalog: Catalog) -> dict[str, Bools]:
    """The categories with the most pairs; nothing where all items have the same."""
    if len(catalog.categories) < 2:
        return {}
    inside = (item >= 0) & (item < len(catalog))
    rows = np.where(inside, catalog.category_rows[np.where(inside, item, 0)], -1)
    sizes = np.bincount(rows[inside], minlength=len(catalog.categories))
    largest = [int(row) for row in np.argsort(-sizes, kind="stable")[:CATEGORIES] if sizes[row]]
    named = {str(catalog.categories.id(row)) or "without category": rows == row for row in largest}
    return named | {"other categories": ~np.isin(rows, largest)}


def _first(kind: str, users: Ints, firsts: Firsts | None, seed: int) -> dict[str, Any]:
    """How often the first item of a slate is wanted by these users; a part of the items has no first place."""
    if firsts is None or kind != "users":
        return {}
    asked, first = firsts
    own = np.isin(asked, users)
    everyone, at = np.unique(asked[own], return_inverse=True)
    hits = np.bincount(at, weights=first[own], minlength=len(everyone))
    return {"precision_at_1": share(hits, np.bincount(at, minlength=len(everyone)), seed).as_dict()}


def _told(kind: str, name: str, trace: StageTrace, mask: Bools, seed: int) -> dict[str, Any]:
    weight = None if trace.weight is None else trace.weight[mask]
    part = decompose(StageTrace(trace.alive[mask], trace.names, trace.user[mask], weight, trace.rescue))
    wanted = part.alive[0]
    recall: Estimate = part.recall(seed)
    return {
        "kind": kind,
        "name": name,
        "users": len(part.users),
        "wanted": wanted.item(),
        "recall": recall.as_dict(),
        "lost": [float(lost / wanted) if wanted else 0.0 for lost in part.first_losses],
        "few": len(part.users) < FEWEST,
    }
