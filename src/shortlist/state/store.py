"""The store of user states in this process."""

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError, VersionMismatch, did_you_mean
from shortlist.models.state_model import StateModel
from shortlist.state.bundle import BundleUsers, rows_fingerprint
from shortlist.state.events.batch import Batch, Events, late_events, sorted_events
from shortlist.state.events.event import CheckedEvents, UserEvent, UserKey, checked, checked_columns, user_key
from shortlist.state.events.log import EventLog
from shortlist.state.histories import UserHistories
from shortlist.state.interface import LiveUsers
from shortlist.state.migration import MigrationPolicy, MigrationReport, filled
from shortlist.state.monitoring import state_report
from shortlist.state.report import ApplyReport, EventCounts, MemoryReport, StateReport
from shortlist.state.settings import StateSettings
from shortlist.state.snapshot import read_snapshot, without_users, write_snapshot
from shortlist.state.table.promotion import PromotionReport
from shortlist.state.table.table import StateTable

NO_MODEL = "this bundle has no model with a user state; add a two-time-scale stage and train again"


class UserStateStore:
    """States of users that follow their events; every method may be called from any thread.

    The state of a user is a function of the version of the model, of the base (the start of the user and the events of
    the bundle) and of the events in the log by (time, event id). An event that comes out of order marks the user; the
    state is computed again at the next query. Events before `since_ms` are those of the bundle.
    """

    def __init__(
        self,
        model: StateModel | None,
        users: Vocabulary,
        items: Vocabulary,
        histories: UserHistories,
        version: str,
        settings: StateSettings = StateSettings(),  # noqa: B008
        log: EventLog | None = None,
        since_ms: int = 0,
    ) -> None:
        self.version, self.settings, self.log = version, settings, EventLog() if log is None else log
        self._lock = RLock()
        self._bundles = {version: BundleUsers(users, items, histories, self.log, since_ms)}
        self._tables: dict[str, StateTable] = {}
        if model is not None:
            self._tables[version] = StateTable(model, version, 0, self.bundle, self.log, settings)
        self._counts = EventCounts()

    @property
    def bundle(self) -> BundleUsers:
        """The bundle of the version that is served."""
        return self._bundles[self.version]

    @property
    def model(self) -> StateModel | None:
        """The model of the version that is served."""
        table = self._tables.get(self.version)
        return None if table is None else table.model

    @property
    def users(self) -> Vocabulary:
        return self.bundle.users

    @property
    def items(self) -> Vocabulary:
        return self.bundle.items

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that have states, the oldest first."""
        with self._lock:
            return tuple(self._bundles)

    def fingerprint(self, version: str) -> str:
        """The `rows_fingerprint` of the users and items of a version."""
        with self._lock:
            bundle = self._bundle(version)
            return rows_fingerprint(bundle.users, bundle.items)

    def close(self) -> None:
        """Close the event log."""
        with self._lock:
            self.log.close()

    def apply(self, events: Sequence[UserEvent], now_ms: int) -> ApplyReport:
        """Add events at once; all valid ones or, after an error, none."""
        with self._lock:
            return self._apply(checked(events, self.items, now_ms, self._since_ms, self.log.forgotten))

    def apply_columns(
        self,
        users: Sequence[UserKey],
        items: Sequence[int | str],
        times: NDArray[np.integer[Any]],
        event_ids: NDArray[np.integer[Any]],
        now_ms: int,
    ) -> ApplyReport:
        """The same for events as columns, with event ids that are whole numbers."""
        with self._lock:
            rows, n_items = self.items.rows(items), len(self.items)
            return self._apply(
                checked_columns(
                    users, rows, times, event_ids, n_items, now_ms, self._since_ms, self.log.forgotten
                )
            )

    def read(self, user_ids: Sequence[int | str], version: str | None = None) -> LiveUsers:
        """Rows, histories and vectors of users at one moment; raises VersionMismatch without states of `version`."""
        with self._lock:
            rows = [self.row(user, version) for user in user_ids]
            histories = [self.history(user, version) for user in user_ids]
            has_vectors = (self.version if version is None else version) in self._tables
            return LiveUsers(rows, histories, self.query(user_ids, version) if has_vectors else None)

    def history(self, user_id: int | str, version: str | None = None) -> list[int]:
        """Item rows of the bundle and of live events, oldest first; the newest `max_history` of them."""
        key, most = user_key(user_id), self.settings.max_history
        with self._lock:
            bundle = self._bundle(version)
            own, number = bundle.history(bundle.row(key)), self.log.number(key)
            if number == UNKNOWN:
                return list(own[-most:].tolist())
            self._settle([number])
            live = self.log.rows(number, bundle.floor_of(number), most)
            rows = bundle.item_rows(self.log.item.values[live])
            return list(np.concatenate([own, rows[rows >= 0]])[-most:].tolist())

    def row(self, user_id: int | str, version: str | None = None) -> int:
        """Row of a user in the training data, -1 for one who was not there or was forgotten."""
        with self._lock:
            return self._bundle(version).row(user_key(user_id))

    def changed(self, version: str | None = None) -> list[int | str]:
        """Users whose answers are not those of the bundle: they have live events, or were forgotten."""
        with self._lock:
            live = [self.log.users[number] for number in self.log.with_events().tolist()]
            ids = [key for key in live if key is not None]
            return [*ids, *set(map(user_key, self._bundle(version).forgotten)).difference(ids)]

    def query(self, user_ids: Sequence[int | str], version: str | None = None) -> Tensor:
        """User vectors [B, D]; raises VersionMismatch where no states of `version` are there."""
        keys = [user_key(user) for user in user_ids]
        with self._lock:
            self._counts = self._counts.with_queries(len(keys), version is None or version in self._tables)
            table = self._table(version)
            numbers = np.array([self.log.number(key) for key in keys], np.int32)
            known = np.unique(numbers[numbers >= 0])
            self._settle(known.tolist())
            table.ensure(known[~table.has_record(known)])
            rows = np.array([table.bundle.row(key) for key in keys], np.int64)
            return table.vectors(numbers, rows)

    def record(self, user_id: int | str) -> bytes:
        """The stored record of a user after all events, empty for one without live events."""
        with self._lock:
            table, number = self._table(None), self.log.number(user_key(user_id))
            if number == UNKNOWN or not self.log.has_events(number):
                return b""
            self._settle([number])
            users = np.array([number], np.int32)
            table.ensure(users[~table.has_record(users)])
            return table.records.values[users].tobytes()

    def rebuild(self, user_id: int | str) -> Tensor:
        """Compute the state of a user again from the bundle and the log; the user vector [D]."""
        with self._lock:
            number = self.log.number(user_key(user_id))
            if number != UNKNOWN:
                self._settle([number])
                for table in self._tables.values():
                    table.rebuild(number)
            return self.query([user_id])[0]

    def promote(self, user_id: int | str) -> bool:
        """Give a user a vector of their own now; False where the model has no such rule or the user has one."""
        with self._lock:
            table, number = self._table(None), self.log.number(user_key(user_id))
            if number == UNKNOWN or table.model.promotion() is None:
                return False
            self._settle([number])
            table.ensure(np.array([number], np.int32))
            if table.is_active(number):
                return False
            table.promote(number)
            return True

    def review(self) -> PromotionReport:
        """Promote users who have passed the threshold by a tenth, and demote those who are a tenth below it.

        It counts the events of all users and fits a vector for each who is promoted, so it is for a background task,
        not for a request. Users who have passed the threshold have the same states whenever it was called.
        """
        with self._lock:
            table = self._table(None)
            up, down = table.review()
            self._settle([*up, *down])
            for number in up:
                table.promote(number)
            for number in down:
                table.demote(number)
            return PromotionReport(len(up), len(down))

    def forget(self, user_id: int | str, snapshots: Sequence[Path | str] = ()) -> None:
        """Remove everything of a user, in the given snapshots too; later events begin from the common start.

        After an error of the disk the same call goes on where it stopped.
        """
        key = user_key(user_id)
        with self._lock:
            number = self.log.number(key)
            self.log.forget(key)
            for bundle in self._bundles.values():
                bundle.forget(key)
            for table in self._tables.values() if number != UNKNOWN else ():
                table.forget(number)
            self.log.clean()  # after the states: if the disk is full, the user is forgotten all the same
            gone = np.array([number for number, one in enumerate(self.log.users) if one is None], np.int64)
            for path in snapshots:
                without_users(path, gone)

    def memory(self) -> MemoryReport:
        """Bytes by part."""
        with self._lock:
            tables = self._tables.values()
            return MemoryReport(
                users=len(self.log.with_events()),
                events=int((self.log.owner.values >= 0).sum()),
                record_bytes=max((table.kind.itemsize for table in tables), default=0),
                records=sum(table.nbytes for table in tables),
                user_index=self.log.user_bytes + sum(bundle.nbytes for bundle in self._bundles.values()),
                event_columns=self.log.column_bytes,
                event_index=self.log.index_bytes,
                checkpoints=sum(table.checkpoints.nbytes for table in tables),
            )

    def report(self, now_ms: int) -> StateReport:
        """How the states are, for monitoring."""
        with self._lock:
            return state_report(self.version, self._tables, self.log, self._counts, now_ms)

    def snapshot(self, path: Path | str, overwrite: bool = False) -> None:
        """Write the states of the served version to a folder, with the length of the log that is in them."""
        with self._lock:
            self._settle(list(self.log.disordered))
            write_snapshot(Path(path), self._table(None), overwrite)

    def restore(self, path: Path | str) -> int:
        """Take the states of a snapshot and replay the events that came after it; their number.

        The log must be the one that the snapshot was made with. Users without a state in the snapshot are computed from
        the bundle and the log, as without it.
        """
        with self._lock:
            self._settle(list(self.log.disordered))
            return read_snapshot(Path(path), self._table(None))

    def migrate(
        self,
        model: StateModel,
        version: str,
        now_ms: int,
        policy: MigrationPolicy = MigrationPolicy(),  # noqa: B008
        users: Vocabulary | None = None,
        items: Vocabulary | None = None,
        histories: UserHistories | None = None,
        since_ms: int | None = None,
    ) -> MigrationReport:
        """Add states of another model beside the present ones, which stay served until `switch`.

        Users, items, histories and `since_ms` are those of the bundle of the new model; the present ones where it has
        none of its own.
        """
        with self._lock:
            if version in self._bundles:
                raise ConfigError(f"states: version {version} is there already; retire it first")
            old, bundle = self._table(None), self.bundle
            self._settle(list(self.log.disordered))
            since = self._since_ms if since_ms is None else since_ms
            new_bundle = BundleUsers(
                users or bundle.users, items or bundle.items, histories or bundle.histories, self.log, since
            )
            number = 1 + max(table.number for table in self._tables.values())
            table = StateTable(model, version, number, new_bundle, self.log, self.settings)
            report = filled(table, old, now_ms, policy)
            self._bundles[version], self._tables[version] = new_bundle, table
            return report

    def switch(self, version: str) -> None:
        """Serve another version; the one before stays, so that switching back costs nothing."""
        with self._lock:
            self.version = self._table(version).version

    def retire(self, version: str) -> None:
        """Remove the states of a version that is not served."""
        with self._lock:
            if version == self.version:
                raise ConfigError(f"states: version {version} is served; switch to another one first")
            self._table(version)
            del self._tables[version], self._bundles[version]

    @property
    def _since_ms(self) -> int:
        return self.bundle.floor[0] + 1

    def _table(self, version: str | None) -> StateTable:
        """The states of a version, by default of the one that is served."""
        if not self._tables:
            raise ConfigError(NO_MODEL)
        self._bundle(version)
        return self._tables[self.version if version is None else version]

    def _bundle(self, version: str | None) -> BundleUsers:
        """The bundle of a version, by default of the one that is served."""
        if version is None:
            return self.bundle
        if version not in self._bundles:
            raise VersionMismatch(
                f"states: expected version {' or '.join(self._bundles)}, got {version}; a state means nothing to "
                f"another model, so load the bundle of the states or migrate them{did_you_mean(version, self._bundles)}"
            )
        return self._bundles[version]

    def _settle(self, numbers: Sequence[int]) -> None:
        """Bring the events of users into their order and replay what changed."""
        for number in numbers:
            key = self.log.settle(number)
            if key is not None:
                for table in self._tables.values():
                    table.replay(number, key)

    def _apply(self, valid: CheckedEvents) -> ApplyReport:
        batch = self._numbered(valid)
        new = self.log.is_new(batch.users, batch.ids)
        late = new & late_events(batch, self.log.last_time.values, int(self.settings.reorder_seconds * 1000))
        kept = new & ~late if self.settings.late == "drop" else new
        applied, fresh = int(kept.sum()), int(new.sum())
        report = ApplyReport(applied, len(batch) - fresh, int(late.sum()), valid.rejected, fresh - applied)
        disordered = self._add(sorted_events(batch.take(kept))) if report.applied else 0
        self._counts = self._counts.with_batch(report, disordered)
        return report

    def _numbered(self, valid: CheckedEvents) -> Batch:
        """The events with numbers of the log."""
        users = self.log.user_numbers(valid.users)
        return Batch(users, self.bundle.item_numbers(valid.items), valid.times, valid.ids)

    def _add(self, events: Events) -> int:
        """Add new events to the log and move the states; how many are not newer than those before."""
        for table in self._tables.values():
            users = events.users[~table.follows(events.users)]
            self._settle([user for user in users.tolist() if user in self.log.disordered])
            table.ensure(users)
        first = events.starts[:-1]
        ordered = self.log.in_order(events.users, events.times[first], events.ids[first])
        if self.log.disordered:
            ordered &= [user not in self.log.disordered for user in events.users.tolist()]
        clean = events if ordered.all() else events.take(np.flatnonzero(ordered))
        moved = [(table, table.advanced(clean)) for table in self._tables.values()]
        owners = np.repeat(events.users, events.starts[1:] - events.starts[:-1])
        older = self.log.append(owners, events.items, events.times, events.ids)
        for table, records in moved:
            table.store(clean, records)
            if clean is not events:
                table.mark_dirty(events.users[~ordered])
        return older
