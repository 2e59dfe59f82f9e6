"""Who nominated the items with positive feedback: their place in the list of each nominator, and probabilities."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shortlist.errors import DataError
from shortlist.feedback.join import labelled, only_rule
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.metrics.nomination.coverage import ABSENT


@dataclass(frozen=True, eq=False)
class NominationLog:
    """P shown items of logged requests, by the names of N nominators."""

    nominators: tuple[str, ...]
    request_id: Array  # int64 [P]
    ts_ms: Array  # int64 [P]
    user_id: Array  # [P] ids as in the log, or rows
    item_id: Array  # [P]
    picked: Array  # bool [P, N] the nominator returned the item
    place: Array  # int32 [P, N] from 1 in its list, 0 = none or not logged
    propensity: (
        Array  # float64 [P, N] that it returns the item: 1 if it is not random, 0 if it did not return it
    )
    shown: Array  # float64 [P] that the system shows the item, NaN = nothing was random

    def __len__(self) -> int:
        return len(self.request_id)

    @property
    def rank(self) -> Array:
        """The rank of each item in the list of each nominator from 0, `ABSENT` where it is not there [P, N]."""
        unknown = self.picked & (self.place == 0)
        if unknown.any():
            raise DataError(
                f"nominations: expected the ranks of nominated items in the log, got none for {unknown.any(1).sum()} "
                f"of {len(self)} items; an earlier version wrote the log: log new requests"
            )
        found: Array = np.where(self.picked, self.place.astype(np.int64) - 1, ABSENT)
        return found

    @property
    def best(self) -> Array:
        """The best rank of each item in any list [P], `ABSENT` for none."""
        found: Array = self.rank.min(axis=1, initial=ABSENT)
        return found

    def take(self, rows: Array) -> "NominationLog":
        """Some of the items, in this order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in (*PER_ITEM, *BY_NOMINATOR)})

    def of(self, nominators: Sequence[str]) -> "NominationLog":
        """The same items by other names, in this order; a nominator that the log does not know returned nothing."""
        known = [self.nominators.index(one) if one in self.nominators else -1 for one in nominators]
        at = np.array(known, np.int64)
        columns = {}
        for name in BY_NOMINATOR:
            # One more column for the unknown ones: nothing was returned.
            wide = np.pad(getattr(self, name), ((0, 0), (0, 1)))
            columns[name] = wide[:, at]
        return replace(self, nominators=tuple(nominators), **columns)


BY_NOMINATOR = ("picked", "place", "propensity")
PER_ITEM = ("request_id", "ts_ms", "user_id", "item_id", "shown")


def read_nominations(reader: LogReader, rule: int | None = None) -> NominationLog:
    """The shown items with positive feedback; `rule` is the version of the labels, if there are several."""
    rule = only_rule(reader.root) if rule is None else rule
    return joined(nominations(record, np.flatnonzero(record.y == 1)) for record in labelled(reader, rule))


def nominations(record: LoggedRequests, rows: Array) -> NominationLog:
    """Who nominated some candidates of a record."""
    names = tuple(dict.fromkeys(name for funnel in record.funnels for name in funnel.nominators))
    owner = record.request[rows]
    shape = (len(rows), len(names))
    picked, place = np.zeros(shape, bool), np.zeros(shape, np.int32)
    chance, random = np.full(shape, np.nan), _is_random(record)[owner]
    for number, funnel in enumerate(record.funnels):
        own = np.flatnonzero(record.funnel[owner] == number)
        for bit, name in enumerate(funnel.nominators):
            at, column = rows[own], names.index(name)
            picked[own, column] = (record.channel_mask[at] >> bit) & 1
            if bit < record.nominator_ranks.shape[1]:
                place[own, column] = record.nominator_ranks[at, bit]
                chance[own, column] = record.nominator_propensity[at, bit]
    pool, slate = (
        getattr(record, name)[rows].astype(np.float64) for name in ("pool_propensity", "slate_propensity")
    )
    shown = np.where(random, np.nan_to_num(pool, nan=1.0) * np.nan_to_num(slate, nan=1.0), np.nan)
    chance = np.where(picked, np.nan_to_num(chance, nan=1.0), 0.0)
    of_request = (record.request_id[owner], record.ts_ms[owner], record.user_id[owner])
    return NominationLog(names, *of_request, record.item_id[rows], picked, place, chance, shown)


def _is_random(record: LoggedRequests) -> Array:
    """Whether anything decided at random about the items of a request [R]."""
    known = np.isfinite(record.pool_propensity) | np.isfinite(record.slate_propensity)
    found: Array = np.bincount(record.request, known, minlength=len(record)) > 0
    return found


def joined(parts: Iterable[NominationLog]) -> NominationLog:
    """The items of several logs, one after the other, by all their nominators."""
    found = list(parts)
    if not found:
        return _nothing()
    names = tuple(dict.fromkeys(name for part in found for name in part.nominators))
    same = [part if part.nominators == names else part.of(names) for part in found]
    columns = {
        name: np.concatenate([getattr(one, name) for one in same]) for name in (*PER_ITEM, *BY_NOMINATOR)
    }
    return NominationLog(nominators=names, **columns)


def _nothing() -> NominationLog:
    none, wide = np.empty(0, np.int64), (0, 0)
    by_nominator = (np.zeros(wide, bool), np.zeros(wide, np.int32), np.zeros(wide))
    return NominationLog((), none, none, none, none, *by_nominator, np.empty(0))
