"""User states: the public names of the room `state`, which the pipeline imports too."""

from shortlist.state import (
    ApplyReport,
    EventLog,
    MemoryReport,
    RejectedEvent,
    StateSettings,
    UserEvent,
    UserHistories,
    UserStates,
    UserStateStore,
)

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
