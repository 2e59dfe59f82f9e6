"""The states of users under one version of a model: a record of each, computed from the bundle and the event log."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN
from shortlist.errors import ArtifactError
from shortlist.models.fold_in import fold_in, sums_of
from shortlist.models.state_model import StateModel
from shortlist.state.bundle import BundleUsers
from shortlist.state.columns import GrowingArray
from shortlist.state.events.batch import Events
from shortlist.state.events.log import MOST_EVENTS, EventLog, Key
from shortlist.state.settings import StateSettings
from shortlist.state.table.checkpoints import Checkpoints
from shortlist.state.table.losses import NextEventLosses
from shortlist.state.table.promotion import Promoted, base_size, promotion_count, stays_active
from shortlist.state.table.records import (
    ACTIVE,
    DIRTY,
    INTERIM,
    MOST_STEPS,
    NO_ITEM,
    PRESENT,
    PROMOTED,
    Floats,
    Records,
    record_type,
    set_vectors,
    vectors_of,
)
from shortlist.state.table.recurrences import Bools, Items, Recurrences, joined, without_unknown
from shortlist.state.table.steps import StepNorms

Numbers = NDArray[np.int32]
Integers = NDArray[np.int64]

SHORT = 16  # steps since the base from which on records are kept for events that come out of order


class StateTable:
    """Records of users by their numbers in the log; those who have none get one when they are needed."""

    def __init__(
        self,
        model: StateModel,
        version: str,
        number: int,
        bundle: BundleUsers,
        log: EventLog,
        settings: StateSettings,
    ) -> None:
        self.model, self.version, self.number = model, version, number
        self.bundle, self.log, self.settings = bundle, log, settings
        self.recurrences = Recurrences(model, settings.storage)
        if self.recurrences.n_items != len(bundle.items):
            raise ArtifactError(
                f"states: the model has {self.recurrences.n_items} item vectors and the catalogue {len(bundle.items)} "
                "items; take both from one bundle"
            )
        self.kind = record_type(self.recurrences.width, settings.storage)
        self.records = GrowingArray(self.kind)
        self.checkpoints = Checkpoints(self.kind, settings.checkpoints)
        self.promoted: dict[int, Promoted] = {}
        self.cuts: dict[int, Key] = {}  # events up to it are left out after a migration
        self.norms, self.losses = StepNorms(), NextEventLosses(model.vectors())
        self._window_ms = int(settings.reorder_seconds * 1000)
        self._stranger: Records | None = None
        self._stranger = self._fresh(np.full(1, UNKNOWN, np.int64))  # of users who are not in the bundle

    def has_record(self, users: Numbers) -> Bools:
        """Whether users [U] have a record."""
        found: Bools = (self._flags(users) & PRESENT) > 0
        return found

    def follows(self, users: Numbers) -> Bools:
        """Whether users [U] have a record that is computed from their events."""
        found: Bools = (self._flags(users) & (PRESENT | INTERIM)) == PRESENT
        return found

    def is_active(self, user: int) -> bool:
        """Whether a user has a vector of their own."""
        return bool(self._flags(np.array([user], np.int32))[0] & ACTIVE)

    def ensure(self, users: Numbers) -> None:
        """Compute the records of users, whose events are settled."""
        if len(users):
            self._flags(users)
            self.records.values[users] = self.rebuilt(users)

    def rebuilt(self, users: Numbers) -> Records:
        """Records [U] from the bundle and all events of the log, which must be settled."""
        return self._replayed(users, self._base_records(users))

    def advanced(self, events: Events) -> Records:
        """Records [R] after events that come after all earlier ones of their users; nothing is stored yet."""
        return self._after(events, self.records.values[events.users])

    def store(self, events: Events, records: Records) -> None:
        """Store records that `advanced` has returned."""
        before = self.records.values[events.users]
        moved = (
            events.times[events.starts[:-1]] - self.checkpoints.newest_times(events.users) > self._window_ms
        )
        kept = moved & (before["steps_since_base"] >= SHORT)
        self.checkpoints.add(events.users[kept], before[kept])
        self.norms.add(before, records, events.starts)
        self.records.values[events.users] = records
        self._add_losses(events, before)

    def _add_losses(self, events: Events, before: Records) -> None:
        """Measure a sample of the first new events of users, from their records [R] before them."""
        some = self.losses.sample(len(events.users))
        if not len(some):
            return
        users, records = events.users[some], before[some]
        items = self.bundle.item_rows(events.items[events.starts[some]]).astype(np.int64)
        vectors = self._read(records, users, self.bundle.user_rows(users))
        self.losses.add(vectors, items, (records["flags"] & ACTIVE) > 0)

    def mark_dirty(self, users: Numbers) -> None:
        """Note that records [U] lack events, which came out of order."""
        self.records.values["flags"][users] |= DIRTY

    def replay(self, user: int, key: Key) -> None:
        """Compute a record again because the events of the user changed from `key` on; the log is settled."""
        users = np.array([user], np.int32)
        if not self.follows(users)[0]:
            return
        promoted = self.promoted.get(user)
        if promoted is not None and key <= promoted.key:
            self.promoted[user] = self._promoted(user, promoted.events)
        kept = self.checkpoints.before(user, key)
        start = self._base_records(users) if kept is None else kept
        self.records.values[users] = self._replayed(users, start)

    def rebuild(self, user: int) -> None:
        """Compute a record again from the bundle and the log."""
        self.checkpoints.drop(user)
        self.ensure(np.array([user], np.int32))

    def vectors(self, users: Numbers, rows: Integers) -> Tensor:
        """User vectors [U, D] of users with numbers or -1, and rows in the bundle."""
        known = np.flatnonzero(users >= 0)
        records = self._fresh(np.full(len(users), UNKNOWN, np.int64))
        if len(known):
            records[known] = self.records.values[users[known]]
        others = np.flatnonzero((users < 0) & (rows >= 0))
        if len(others):
            records[others] = self._fresh(rows[others])
        return self._read(records, users, rows)

    def promote(self, user: int) -> None:
        """Give a user a vector of their own, of the first events, and replay the others."""
        rule = self.model.promotion()
        assert rule is not None, "the store asks first"
        self.cuts.pop(user, None)  # the vector is made of all events
        self.promoted[user] = self._promoted(user, base_size(rule, len(self.items_of(user)[0])))
        self.rebuild(user)

    def demote(self, user: int) -> None:
        """Take away the own vector of a user who was promoted."""
        del self.promoted[user]
        self.rebuild(user)

    def review(self) -> tuple[list[int], list[int]]:
        """Users to promote and users to demote by the number of their events, those without a record too."""
        rule = self.model.promotion()
        if rule is None:
            return [], []
        counts = self.bundle.counts()
        enough = np.flatnonzero(counts >= promotion_count(rule))
        rows = self.bundle.user_rows(enough)
        trained = self.recurrences.active(self._with_base(rows, self.bundle.lengths(rows))[0])
        base = base_size(rule, promotion_count(rule))
        others = enough[~trained].tolist()
        up = [user for user in others if user not in self.promoted or self.promoted[user].events != base]
        down = [user for user in sorted(self.promoted) if not stays_active(rule, int(counts[user]))]
        return up, down

    def forget(self, user: int) -> None:
        """Remove the record of a user and everything that was made of it."""
        if user < len(self.records):
            self.records.values[user] = np.zeros((), self.kind)
        self.checkpoints.drop(user)
        self.promoted.pop(user, None)
        self.cuts.pop(user, None)

    def take(self, users: Numbers, records: Records) -> None:
        """Store records [U] that were computed earlier."""
        self._flags(users)
        self.records.values[users] = records

    def clear(self) -> None:
        """Remove all records."""
        self.records = GrowingArray(self.kind)
        self.checkpoints = Checkpoints(self.kind, self.settings.checkpoints)
        self.promoted, self.cuts = {}, {}

    def lose(self, users: Numbers) -> None:
        """Remove the records of users [U] whose events have changed; they are computed when they are needed."""
        self.records.values[users] = np.zeros((), self.kind)
        for user in users.tolist():
            self.checkpoints.drop(user)
            if user in self.promoted:
                self.promoted[user] = self._promoted(user, self.promoted[user].events)

    @property
    def nbytes(self) -> int:
        """Bytes of records and of own vectors of promoted users."""
        return self.records.nbytes + sum(one.vector.nbytes for one in self.promoted.values())

    def _flags(self, users: Numbers) -> NDArray[np.uint8]:
        self.records.resize(max(len(self.log.users), len(self.records)))
        flags: NDArray[np.uint8] = self.records.values["flags"][users]
        return flags

    def _base_records(self, users: Numbers) -> Records:
        """Records [U] after the events of the bundle, or at the base of a promoted user."""
        rows = self.bundle.user_rows(users)
        records = self._fresh(rows)
        for at, user in enumerate(users.tolist()):
            if user in self.promoted:
                records[at : at + 1] = self._promoted_record(user, int(rows[at]))
            else:
                after = self.cuts.get(user) or self.bundle.floor_of(user)
                records["last_ts"][at], records["last_event_id"][at] = after
        return records

    def _fresh(self, rows: Integers) -> Records:
        """Records [U] of users of the bundle, -1 = of none, before their first event in the log."""
        if (rows < 0).all() and self._stranger is not None:
            return np.repeat(self._stranger, len(rows))
        histories = [self.bundle.history(row) for row in rows.tolist()]
        counts = np.array([len(one) for one in histories])
        rows, bases = self._with_base(rows, counts)
        active, personal = self.recurrences.active(rows), self.recurrences.personal(rows)
        starts, items = joined([own[base:] for own, base in zip(histories, bases.tolist(), strict=True)])
        states, scales = self.recurrences.run(
            self.recurrences.starts(active, personal), active, personal, starts, items
        )
        records = np.zeros(len(rows), self.kind)
        set_vectors(records, states, scales)
        records["last_ts"], records["last_event_id"] = self.bundle.floor
        records["last_item"] = [own[-1] if len(own) else NO_ITEM for own in histories]
        records["count"], records["model_version"] = counts, self.number
        records["steps_since_base"] = np.minimum(counts - bases, MOST_STEPS)
        records["flags"] = PRESENT | np.where(active, ACTIVE, 0)
        return records

    def _with_base(self, rows: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Rows [U], -1 where the history lacks events of the base and is that of another user, and their bases."""
        bases = self.recurrences.base_events(rows)
        return np.where(bases > lengths, UNKNOWN, rows), np.where(bases > lengths, 0, bases)

    def _replayed(self, users: Numbers, records: Records) -> Records:
        """Records [U] after the events of the log that come after each of them."""
        found = [
            self.log.rows(user, (time, number))
            for user, time, number in zip(
                users.tolist(), records["last_ts"].tolist(), records["last_event_id"].tolist(), strict=True
            )
        ]
        kept = self._before_window(users, records, found)
        if kept is not None:
            records, found = kept
        return self._after_rows(users, records, found)

    def _before_window(
        self, users: Numbers, records: Records, found: list[Numbers]
    ) -> tuple[Records, list[Numbers]] | None:
        """The records before the reorder window, which are kept, and the later rows; None where all are later."""
        times, last = self.log.time.values, self.log.last_time.values[users] - self._window_ms
        older = [int(times[rows].searchsorted(end)) for rows, end in zip(found, last.tolist(), strict=True)]
        if not self.checkpoints.most or max(older, default=0) < SHORT:
            return None
        records = self._after_rows(users, records, [rows[:at] for rows, at in zip(found, older, strict=True)])
        self._keep(users, records)
        return records, [rows[at:] for rows, at in zip(found, older, strict=True)]

    def _keep(self, users: Numbers, records: Records) -> None:
        """Keep records of long users [U], from which later events that come out of order are replayed."""
        newer = records["last_ts"] > self.checkpoints.newest_times(users)
        kept = newer & (records["steps_since_base"] >= SHORT)
        self.checkpoints.add(users[kept], records[kept])

    def _after_rows(self, users: Numbers, records: Records, found: list[Numbers]) -> Records:
        """Records [U] after these rows of the log."""
        starts, at = joined(found)
        if not len(at):
            return records
        log = self.log
        events = Events(users, starts, log.item.values[at], log.time.values[at], log.id.values[at])
        return self._after(events, records)

    def _after(self, events: Events, records: Records) -> Records:
        """Records [R] after events of their users."""
        starts, items = without_unknown(events.starts, self.bundle.item_rows(events.items))
        active = (records["flags"] & ACTIVE) > 0
        personal = self._personal(events.users, self.bundle.user_rows(events.users), active)
        states, scales = self.recurrences.run(vectors_of(records), active, personal, starts, items)
        after, lengths = records.copy(), starts[1:] - starts[:-1]
        set_vectors(after, states, scales)
        some = np.flatnonzero(lengths)
        after["last_item"][some] = items[starts[some + 1] - 1]
        after["count"] += lengths.astype(np.uint32)
        after["steps_since_base"] = np.minimum(records["steps_since_base"] + lengths, MOST_STEPS)
        after["flags"] &= ~np.uint8(DIRTY)
        any_event = np.flatnonzero(events.starts[1:] - events.starts[:-1])
        last = events.starts[any_event + 1] - 1
        after["last_ts"][any_event], after["last_event_id"][any_event] = events.times[last], events.ids[last]
        return after

    def _personal(self, users: Numbers, rows: Integers, active: Bools) -> Floats:
        """The own vectors of users [U], zeros for those who are not active [U, D]."""
        if not active.any():
            return np.zeros((len(users), self.recurrences.width), np.float32)
        vectors = self.recurrences.personal(np.where(active, rows, UNKNOWN))
        vectors[~active] = 0
        for at, user in enumerate(users.tolist() if self.promoted else ()):
            if user in self.promoted:
                vectors[at] = self.promoted[user].vector
        return vectors

    def _read(self, records: Records, users: Numbers, rows: Integers) -> Tensor:
        states, flags = vectors_of(records), records["flags"]
        active = (flags & ACTIVE) > 0
        last = records["last_item"].astype(np.int64)
        last[last == NO_ITEM] = UNKNOWN
        found = self.recurrences.readout(states, last, active, self._personal(users, rows, active))
        interim = torch.from_numpy((flags & INTERIM) > 0)
        return torch.where(interim[:, None], torch.from_numpy(states), found)

    def items_of(self, user: int) -> tuple[Items, Sequence[Key]]:
        """All known items of a user, of the bundle and of the log, and the keys of those of the log."""
        history = self.bundle.history(int(self.bundle.user_rows(np.array([user]))[0]))
        rows = self.log.rows(user, self.bundle.floor_of(user), MOST_EVENTS)
        live = self.bundle.item_rows(self.log.item.values[rows])
        rows, live = rows[live >= 0], live[live >= 0]
        keys = list(zip(self.log.time.values[rows].tolist(), self.log.id.values[rows].tolist(), strict=True))
        return np.concatenate([history, live]), keys

    def _promoted(self, user: int, events: int) -> Promoted:
        """The vector fitted to the first events of a user."""
        rule = self.model.promotion()
        assert rule is not None, "a user was promoted by it"
        items, keys = self.items_of(user)
        vectors, rows = (
            self.model.inputs().detach().float().cpu(),
            torch.from_numpy(items[:events].astype(np.int64)),
        )
        count = torch.tensor([len(rows)])
        mean = rule.mean.detach().float().cpu()
        vector = fold_in(sums_of(rows, vectors, count), count, vectors, mean, rule.prior)[0].numpy()
        live = events - (len(items) - len(keys))
        return Promoted(vector, len(rows), keys[live - 1] if live > 0 else self.bundle.floor_of(user))

    def _promoted_record(self, user: int, row: int) -> Records:
        """The record of a promoted user at the end of the base and of the later events of the bundle."""
        base = self.promoted[user]
        history = self.bundle.history(row)
        items, _ = self.items_of(user)
        active, personal = np.ones(1, bool), base.vector[None].astype(np.float32)
        starts, later = joined([history[base.events :]])
        states, scales = self.recurrences.run(
            self.recurrences.starts(active, personal), active, personal, starts, later
        )
        record = np.zeros(1, self.kind)
        set_vectors(record, states, scales)
        known = max(base.events, len(history))
        record["last_ts"], record["last_event_id"] = base.key
        record["last_item"] = items[known - 1] if known else NO_ITEM
        record["count"], record["model_version"] = known, self.number
        record["steps_since_base"] = min(len(later), MOST_STEPS)
        record["flags"] = PRESENT | ACTIVE | PROMOTED
        return record
