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


def takes_own(rule: Promotion, count: int) -> bool:
    """Whether a user with so many events becomes active."""
    return count > rule.threshold and 10 * count >= ABOVE * rule.threshold


def stays_active(rule: Promotion, count: int) -> bool:
    """Whether an active user with so many events stays so."""
    return 10 * count >= BELOW * rule.threshold
