"""Earlier records of users, from which events that come out of order are replayed."""

import numpy as np
from numpy.typing import NDArray

from shortlist.data import UNKNOWN
from shortlist.state.columns import GrowingArray
from shortlist.state.events.log import Key
from shortlist.state.table.records import BEFORE, PRESENT, Records

Numbers = NDArray[np.int32]
SLOTS = 2  # records of a user: the older one is always older than the reorder window


class Checkpoints:
    """The two last kept records of up to `most` users; the user who got a place first loses it first."""

    def __init__(self, kind: np.dtype[np.void], most: int) -> None:
        self.most = most
        self._kept = GrowingArray(kind, row=(SLOTS,))  # [C, 2] older, newer
        self._owners = GrowingArray(np.int32, UNKNOWN)  # [C]
        self._places = GrowingArray(np.int32, UNKNOWN)  # by user
        self._next = 0

    @property
    def nbytes(self) -> int:
        return self._kept.nbytes + self._owners.nbytes + self._places.nbytes

    def newest_times(self, users: Numbers) -> NDArray[np.int64]:
        """The time of the newest record of each user [U], -1 without one."""
        places = self._places_of(users)
        times = np.full(len(users), BEFORE, np.int64)
        have = places >= 0
        kept = self._kept.values[places[have], 1]
        times[have] = np.where(kept["flags"] & PRESENT, kept["last_ts"], BEFORE)
        return times

    def add(self, users: Numbers, records: Records) -> None:
        """Keep a record of each user [U] beside the newest one before it."""
        if self.most == 0 or not len(users):
            return
        places = self._places_of(users)
        old = places >= 0
        self._kept.values[places[old], 0] = self._kept.values[places[old], 1]
        self._kept.values[places[old], 1] = records[old]
        new = np.flatnonzero(~old)[: self.most]
        places = self._new_places(users[new])
        self._kept.values[places, 1] = records[new]

    def before(self, user: int, key: Key) -> Records | None:
        """The newest record [1] of a user before `key`; later ones are dropped."""
        place = int(self._places_of(np.array([user], np.int32))[0])
        if place < 0:
            return None
        own = self._kept.values[place]
        for slot in reversed(range(SLOTS)):
            one = own[slot]
            if one["flags"] & PRESENT and (int(one["last_ts"]), int(one["last_event_id"])) < key:
                found: Records = own[slot : slot + 1].copy()
                return found
            own[slot] = np.zeros((), own.dtype)
        return None

    def drop(self, user: int) -> None:
        """Keep nothing of a user."""
        place = int(self._places_of(np.array([user], np.int32))[0])
        if place >= 0:
            self._kept.values[place] = np.zeros((), self._kept.data.dtype)
            self._owners.values[place] = UNKNOWN
            self._places.values[user] = UNKNOWN

    def _places_of(self, users: Numbers) -> Numbers:
        if len(users) and int(users.max()) >= len(self._places):
            self._places.resize(int(users.max()) + 1)
        places: Numbers = self._places.values[users]
        return places

    def _new_places(self, users: Numbers) -> Numbers:
        size = min(self._next + len(users), self.most)
        if size > len(self._kept):
            self._kept.resize(size)
            self._owners.resize(size)
        places = (self._next + np.arange(len(users))) % self.most
        self._next = (self._next + len(users)) % self.most
        lost = self._owners.values[places]
        self._places.values[lost[lost >= 0]] = UNKNOWN
        self._owners.values[places] = users
        self._places.values[users] = places
        self._kept.values[places] = np.zeros((), self._kept.data.dtype)
        return places.astype(np.int32)
