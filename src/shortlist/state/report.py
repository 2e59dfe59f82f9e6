"""What the operations of a store of user states report."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from shortlist.state.events.event import RejectedEvent


@dataclass(frozen=True)
class ApplyReport:
    """What became of the events of a batch."""

    applied: int = 0
    duplicates: int = 0  # events whose id the user has already
    late: int = 0  # older than the reorder window: part of `applied` if they are replayed, else of `dropped`
    rejected: tuple[RejectedEvent, ...] = ()
    dropped: int = 0  # late events that are left out


@dataclass(frozen=True)
class MemoryReport:
    """Bytes in memory by part; the model and the histories of the bundle are not among them."""

    users: int  # with a record
    events: int  # live events
    record_bytes: int  # of one record
    records: int
    user_index: int  # from user ids to records
    event_columns: int
    event_index: int  # from event ids to events
    checkpoints: int

    @property
    def total(self) -> int:
        return self.records + self.user_index + self.event_columns + self.event_index + self.checkpoints

    @property
    def bytes_per_user(self) -> float:
        """Bytes of records and of the index of users, per user with a record."""
        return (self.records + self.user_index) / max(self.users, 1)

    @property
    def bytes_per_event(self) -> float:
        """Bytes of the live events and of their index, per event."""
        return (self.event_columns + self.event_index) / max(self.events, 1)


@dataclass(frozen=True)
class EventCounts:
    """Events and queries since the store was made."""

    applied: int = 0
    duplicates: int = 0
    late: int = 0
    dropped: int = 0  # late events that were left out
    disordered: int = 0  # not newer than the last event of their user: part of `applied`
    rejected: Mapping[str, int] = field(default_factory=dict)  # by the reason
    queries: int = 0  # user vectors that were asked for
    mismatched: int = 0  # of them, those of a version that has no states

    @property
    def offered(self) -> int:
        return self.applied + self.duplicates + self.dropped + sum(self.rejected.values())

    def with_batch(self, report: ApplyReport, disordered: int) -> Self:
        """The counts after a batch of events."""
        return replace(
            self,
            applied=self.applied + report.applied,
            duplicates=self.duplicates + report.duplicates,
            late=self.late + report.late,
            dropped=self.dropped + report.dropped,
            disordered=self.disordered + disordered,
            rejected=dict(Counter(self.rejected) + Counter(one.code for one in report.rejected)),
        )

    def with_queries(self, count: int, there: bool) -> Self:
        """The counts after a query of so many vectors, of a version that is there or not."""
        return replace(
            self, queries=self.queries + count, mismatched=self.mismatched + (0 if there else count)
        )


@dataclass(frozen=True)
class StateReport:
    """How the states of a store are; NaN where there is nothing to measure."""

    version: str
    users: int  # with live events
    users_by_version: Mapping[str, int]  # with a record
    active: int  # users with a record who have a vector of their own
    promoted: int  # of them, after the training
    interim: int  # records that are mapped from another version
    dirty: int  # users whose state is computed again at the next query
    events: EventCounts
    late_share: float
    disordered_share: float
    mismatched_share: float
    staleness_ms: Mapping[str, float]  # of the last event of users with a record: median and 95th percentile
    steps_since_base: Mapping[str, float]
    step_norm: Mapping[str, float]  # mean |s' - s| of new and of active users
    next_event_loss: Mapping[str, float]  # recent mean -log p of their events, from the state before each
