"""What the service and the recommender need of user states, in this process or in a database."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from shortlist.state.events.event import UserEvent
from shortlist.state.report import ApplyReport, MemoryReport, StateReport


class UserStates(Protocol):
    """The live part of users: their events since the bundle was made, and their vectors after these events."""

    @property
    def version(self) -> str:
        """The version of the model whose states these are."""

    def apply(self, events: Sequence[UserEvent], now_ms: int) -> ApplyReport:
        """Add events at once; all valid ones or, after an error, none."""

    def history(self, user_id: int | str) -> list[int]:
        """Item rows of the bundle and of live events, oldest first."""

    def row(self, user_id: int | str) -> int:
        """Row of a user in the training data, -1 for one who was not there or was forgotten."""

    def changed(self) -> list[int | str]:
        """Users whose answers are not those of the bundle: they have live events, or were forgotten."""

    def query(self, user_ids: Sequence[int | str], version: str | None = None) -> Tensor:
        """User vectors [B, D]; raises VersionMismatch where `version` is not that of the states."""

    def forget(self, user_id: int | str) -> None:
        """Remove everything of a user; later events begin from the common start."""

    def memory(self) -> MemoryReport:
        """Bytes by part."""

    def report(self, now_ms: int) -> StateReport:
        """How the states are, for monitoring."""

    def close(self) -> None:
        """Release files and connections."""
