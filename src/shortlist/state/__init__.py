"""User states: live events of users, and a small record of each user that moves with every event."""

from shortlist.state.event import RejectedEvent, UserEvent
from shortlist.state.histories import UserHistories
from shortlist.state.interface import UserStates
from shortlist.state.log import EventLog
from shortlist.state.migration import MigrationPolicy, MigrationReport
from shortlist.state.promotion import PromotionReport
from shortlist.state.report import ApplyReport, MemoryReport, StateReport
from shortlist.state.settings import StateSettings
from shortlist.state.store import UserStateStore

__all__ = [
    "ApplyReport",
    "EventLog",
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
]
