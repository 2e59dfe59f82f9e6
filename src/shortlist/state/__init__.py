"""User states: live events of users, and a small record of each user that moves with every event."""

from shortlist.state.event import RejectedEvent, UserEvent
from shortlist.state.histories import UserHistories
from shortlist.state.interface import UserStates
from shortlist.state.log import EventLog
from shortlist.state.report import ApplyReport, MemoryReport
from shortlist.state.settings import StateSettings
from shortlist.state.store import UserStateStore

__all__ = [
    "ApplyReport",
    "EventLog",
    "MemoryReport",
    "RejectedEvent",
    "StateSettings",
    "UserEvent",
    "UserHistories",
    "UserStateStore",
    "UserStates",
]
