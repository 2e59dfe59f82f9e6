"""Which events the recurrences of both groups are trained on: positions in the log, not copies."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN, Interactions
from shortlist.train.models.sequence import pieces

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequence i has the events starts[i]:stops[i] of users[i]; -1 = a user who is read as a new one.

    It begins with the personal vector bases[i], or with that of its user in the model.
    """

    starts: Positions  # [S]
    stops: Positions  # [S]
    users: Positions  # [S]
    bases: Tensor | None = None  # [S, D]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Positions:
        return self.stops - self.starts


def of_new_users(events: Interactions, active: NDArray[np.bool_], prefix: int, longest: int) -> Sequences:
    """All events of users who are not active, and the first `prefix` events of active ones, as those of new users.

    Sequences of more than `longest` events are cut.
    """
    length = np.where(active, np.minimum(events.lengths, prefix), events.lengths)
    return _cut(events, length, longest)


def last_events(events: Interactions, active: NDArray[np.bool_], last: int) -> Sequences:
    """The last events of active users."""
    users = np.flatnonzero(active & (events.lengths > 0))
    stops = events.starts[users + 1]
    return Sequences(np.maximum(stops - last, events.starts[users]), stops, users)


def after_first(events: Interactions, active: NDArray[np.bool_], first: int, longest: int) -> Sequences:
    """All events of active users after their `first` ones, but the last event at least, in consecutive sequences.

    Those of a user end at his last event; each has `longest` events, the earliest one has what is left.
    """
    users = np.flatnonzero(active & (events.lengths > 0))
    lengths = events.lengths[users]
    begin = np.minimum(first, lengths - 1)
    count = -(-(lengths - begin) // longest)
    owner = np.repeat(np.arange(len(users)), count)
    nth = np.arange(len(owner)) - np.repeat(count.cumsum() - count, count)
    stops = lengths[owner] - nth * longest
    shift = events.starts[users][owner]
    return Sequences(shift + np.maximum(stops - longest, begin[owner]), shift + stops, users[owner])


def whole(
    events: Interactions, users: NDArray[np.bool_], longest: int, known: bool, seed: int = 0
) -> Sequences:
    """All events of some users in sequences of at most `longest`, of known users or as those of new ones.

    Longer ones are cut at positions that the seed decides.
    """
    cut = _cut(events, np.where(users, events.lengths, 0), longest, seed)
    owners = events.users[cut.starts].astype(np.int64)
    return Sequences(cut.starts, cut.stops, owners) if known else cut


def _cut(events: Interactions, lengths: Positions, longest: int, seed: int = 0) -> Sequences:
    """The first events of every user in sequences of at most `longest`."""
    starts, stops = pieces(lengths, longest, np.random.default_rng(seed))
    owner = np.repeat(np.arange(len(lengths)), lengths)[starts] if len(starts) else starts
    shift = events.starts[:-1] - (np.cumsum(lengths) - lengths)  # from the first events to the log
    return Sequences(starts + shift[owner], stops + shift[owner], np.full(len(starts), UNKNOWN))


def padded(column: NDArray[np.generic], starts: Positions, stops: Positions, empty: float) -> Tensor:
    """Values of sequences [B, L], filled up at the end."""
    at = starts[:, None] + np.arange(int((stops - starts).max(initial=0)))
    inside = at < stops[:, None]
    return torch.from_numpy(np.where(inside, column[np.where(inside, at, 0)], empty))


def items_before(events: Interactions, starts: Positions) -> Positions:
    """The item of the same user before each position, -1 where there is none [B]."""
    first = starts == events.starts[events.users[starts]]
    return np.where(first, UNKNOWN, events.items[np.maximum(starts - 1, 0)]).astype(np.int64)
