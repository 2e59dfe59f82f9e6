"""What the operations of a store of user states report."""

from dataclasses import dataclass

from shortlist.state.event import RejectedEvent


@dataclass(frozen=True)
class ApplyReport:
    """What became of the events of a batch."""

    applied: int = 0
    duplicates: int = 0  # events whose id the user has already
    late: int = (
        0  # older than the reorder window: part of `applied` if they are replayed, not if they are dropped
    )
    rejected: tuple[RejectedEvent, ...] = ()


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
