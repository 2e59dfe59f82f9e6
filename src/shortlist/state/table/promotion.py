"""Users who become active after the training: when, and what is kept of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.models.state_model import Promotion
from shortlist.state.events.log import Key

ABOVE, BELOW = 11, 9  # tenths of the threshold: between them a user stays in the group


@dataclass(frozen=True, eq=False)
class Promoted:
    """The own vector of a user who was promoted, and the events that are in it."""

    vector: NDArray[np.float32]  # [D]
    events: int  # first events of the user
    key: Key  # of the last of them


@dataclass(frozen=True)
class PromotionReport:
    """Users who changed their group."""

    promoted: int
    demoted: int


def promotion_count(rule: Promotion) -> int:
    """With how many events a user becomes active: more than the threshold, by a tenth of it."""
    return max(rule.threshold + 1, -(-ABOVE * rule.threshold // 10))


def takes_own(rule: Promotion, count: int) -> bool:
    """Whether a user with so many events becomes active."""
    return count >= promotion_count(rule)


def base_size(rule: Promotion, count: int) -> int:
    """How many first events the vector of a promoted user with so many events is fitted to.

    All but the last when there were just enough for a promotion, so it does not matter when the user is promoted.
    """
    return max(min(count, promotion_count(rule)) - rule.last, 0)


def stays_active(rule: Promotion, count: int) -> bool:
    """Whether an active user with so many events stays so."""
    return 10 * count >= BELOW * rule.threshold
