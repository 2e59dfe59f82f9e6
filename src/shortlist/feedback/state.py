"""User states: the public names of the room `state`, which the pipeline imports too."""

from shortlist.state import (
    ApplyReport,
    EventLog,
    MemoryReport,
    MigrationPolicy,
    MigrationReport,
    PromotionReport,
    RejectedEvent,
    StateReport,
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
