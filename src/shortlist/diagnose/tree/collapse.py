"""Whether everybody gets the same."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ALIKE = 0.9  # lists that share more than this are nearly the same
FIRST = 0.2  # one item on top of more lists than this is suspicious
PERSONAL = 1e-3  # less of the differences between scores than this depends on the user
ENOUGH = 20  # users it takes to speak of shares of them


@dataclass(frozen=True)
class Collapse:
    """What all lists together look like; `alarm` when they are nearly the same for all users, `reason` says why."""

    users: int
    distinct: int  # items in anybody's list
    possible: int  # as many as there could be
    entropy: float  # of the items shown, over that of showing all alike: 1 even, 0 one item
    overlap: float | None  # share of a list that stands in another user's too, on average over pairs of users
    first_share: float | None  # share of users with the most common first item
    personal: float  # share of the differences between item scores that depends on the user
    alarm: bool
    reason: str


def collapse(lists: Tensor, n_items: int, personal: float) -> Collapse:
    """The facts of lists [U, k] of items, -1 = empty place, from a catalogue of `n_items`."""
    users, k = lists.shape
    counts = torch.bincount(lists[lists >= 0], minlength=n_items)
    shown = counts[counts > 0].double()
    overlap = _overlap(counts, lists)
    first = float(torch.bincount(lists[lists[:, 0] >= 0, 0], minlength=1).max()) / max(users, 1)
    reason = _reason(overlap, first, personal, users, k, n_items)
    return Collapse(
        users=users,
        distinct=len(shown),
        possible=min(n_items, int(shown.sum())),
        entropy=_entropy(shown, n_items),
        overlap=overlap,
        first_share=first if users else None,
        personal=personal,
        alarm=bool(reason),
        reason=reason,
    )


def personal_share(total: float, by_item: Tensor, users: int) -> float:
    """1 - (variance of the items' means over users) / (variance of all scores), each user's mean taken off before.

    `total` is the sum of squares of all scores, `by_item` [n] their sums over users.
    """
    if total <= 0:
        return 0.0
    common = float((by_item / users).square().sum()) * users
    return max(0.0, 1.0 - common / total)


def _overlap(counts: Tensor, lists: Tensor) -> float | None:
    """The mean over pairs of users of the share of the first's list that the second has too."""
    places, users = int((lists >= 0).sum()), len(lists)
    if users < 2 or places == 0:
        return None
    return float((counts * (counts - 1)).sum()) / (places * (users - 1))


def _entropy(shown: Tensor, n_items: int) -> float:
    if n_items < 2 or not len(shown):
        return 0.0
    share = shown / shown.sum()
    return float(-(share * share.log()).sum()) / math.log(n_items) + 0.0


def _reason(overlap: float | None, first: float, personal: float, users: int, k: int, n_items: int) -> str:
    """Why one should be alarmed, in words; empty when one should not. Long lists of few items always overlap."""
    if users < 2 or n_items < 2:
        return ""
    if personal < PERSONAL:
        return f"scores hardly depend on the user ({personal:.2%} of their differences do)"
    if overlap is not None and overlap > max(ALIKE, (1 + k / n_items) / 2):
        return f"any two users share {overlap:.0%} of their lists"
    if users >= ENOUGH and first > FIRST:
        return f"one item is the first for {first:.0%} of users"
    return ""
