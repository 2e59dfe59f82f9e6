"""Collapse of recommendations: whether all users get nearly the same list."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ALIKE = 0.9  # lists with a larger overlap are nearly the same
FIRST = 0.2  # an alarm if one item is first in a larger share of lists
PERSONAL = 1e-3  # an alarm if a smaller share of the score variance depends on the user
ENOUGH = 20  # fewest users for a share of users


@dataclass(frozen=True)
class Collapse:
    """Diversity of all lists together; `alarm` if they are nearly the same for all users, with the `reason`."""

    users: int
    distinct: int  # items in any list
    possible: int  # upper limit of that
    entropy: float  # of the items shown over that of the uniform distribution: 1 uniform, 0 one item
    overlap: float | None  # share of a list that is also in another user's, mean over pairs of users
    first_share: float | None  # share of users with the most common first item
    personal: float  # share of the variance of item scores that depends on the user
    alarm: bool
    reason: str


def collapse(lists: Tensor, n_items: int, personal: float) -> Collapse:
    """Collapse measures of lists [U, k] of items, -1 = padding, from a catalogue of `n_items`."""
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
    """1 - (variance of the items' means over users) / (variance of all scores), after subtracting each user's mean.

    `total` is the sum of squares of all scores, `by_item` [n] their sums over users.
    """
    if total <= 0:
        return 0.0
    common = float((by_item / users).square().sum()) * users
    return max(0.0, 1.0 - common / total)


def _overlap(counts: Tensor, lists: Tensor) -> float | None:
    """The mean over pairs of users of the share of the first list that is in the second."""
    filled, users = int((lists >= 0).sum()), len(lists)
    if users < 2 or filled == 0:
        return None
    return float((counts * (counts - 1)).sum()) / (filled * (users - 1))


def _entropy(shown: Tensor, n_items: int) -> float:
    if n_items < 2 or not len(shown):
        return 0.0
    share = shown / shown.sum()
    return float(-(share * share.log()).sum()) / math.log(n_items) + 0.0


def _reason(overlap: float | None, first: float, personal: float, users: int, k: int, n_items: int) -> str:
    """The reason for an alarm, empty without one. Long lists from few items always overlap."""
    if users < 2 or n_items < 2:
        return ""
    if personal < PERSONAL:
        return f"scores hardly depend on the user ({personal:.2%} of their variance does)"
    if overlap is not None and overlap > max(ALIKE, (1 + k / n_items) / 2):
        return f"two users share {overlap:.0%} of their lists on average"
    if users >= ENOUGH and first > FIRST:
        return f"one item is the first for {first:.0%} of users"
    return ""
