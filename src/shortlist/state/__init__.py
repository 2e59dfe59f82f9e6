"""User states: live events of users, and a small record of each user that moves with every event."""

from shortlist.state.bundle import rows_fingerprint
from shortlist.state.events.archive import event_table, trim_log
from shortlist.state.events.event import RejectedEvent, UserEvent
from shortlist.state.events.log import EventLog
from shortlist.state.histories import UserHistories
from shortlist.state.interface import LiveUsers, UserStates
from shortlist.state.migration import MigrationPolicy, MigrationReport
from shortlist.state.report import ApplyReport, MemoryReport, StateReport
from shortlist.state.settings import StateSettings
from shortlist.state.store import UserStateStore
from shortlist.state.table.promotion import PromotionReport

__all__ = [
    "ApplyReport",
    "EventLog",
    "LiveUsers",
    "MemoryReport",
    "MigrationPolicy",
    "MigrationReport",
    "PromotionReport",
    "RejectedEvent",
    "StateReport",
    "StateSettings",
    "UserEvent",
    "UserHistories",
    "UserStateStore",
    "UserStates",
    "event_table",
    "rows_fingerprint",
    "trim_log",
]
