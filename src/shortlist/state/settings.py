"""Settings of a store of user states."""

from dataclasses import dataclass

from shortlist.settings import check_fields, setting

STORAGES = ("fp32", "fp16", "int8")
LATE = ("replay", "drop")


@dataclass(frozen=True)
class StateSettings:
    """How states are stored, and what happens to events that come late."""

    storage: str = setting("fp32", "Number format of a stored state.", choices=STORAGES)
    late: str = setting(
        "replay",
        "What happens to an event that is older than the reorder window: the state is computed again from the start of "
        "the user, or the event is dropped and counted.",
        choices=LATE,
    )
    reorder_seconds: float = setting(
        300.0,
        "How much older than the last event of its user an event may be without being late.",
        least=0,
        most=1e9,
    )
    max_history: int = setting(
        100_000, "Number of newest items that the history of a user has.", least=1, most=100_000_000
    )
    checkpoints: int = setting(
        65_536,
        "Number of users whose states before the reorder window are kept; others are computed again from their start.",
        least=0,
        most=1 << 30,
    )

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
