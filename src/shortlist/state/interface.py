"""What the service and the recommender need of user states, in this process or in a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from shortlist.state.events.event import UserEvent
from shortlist.state.report import ApplyReport, MemoryReport, StateReport


@dataclass(frozen=True, eq=False)
class LiveUsers:
    """What the states hold of users at one moment."""

    rows: list[int]  # in the training data, -1 for users who were not there or were forgotten
    histories: list[list[int]]  # item rows of the bundle and of live events, oldest first
    vectors: Tensor | None  # [U, D] after these events; None for a version without a model


class UserStates(Protocol):
    """The live part of users: their events since the bundle was made, and their vectors after these events.

    There may be states of several versions, each with the users, items and histories of the bundle of its model. Rows
    are numbers of one of them, so every reader names the version of its own bundle; None is the one that is served.
    """

    @property
    def version(self) -> str:
        """The version that is served."""

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that have states."""

    def fingerprint(self, version: str) -> str:
        """The `rows_fingerprint` of the users and items of a version."""

    def apply(self, events: Sequence[UserEvent], now_ms: int) -> ApplyReport:
        """Add events at once; all valid ones or, after an error, none."""

    def read(self, user_ids: Sequence[int | str], version: str | None = None) -> LiveUsers:
        """Rows, histories and vectors of users at one moment; raises VersionMismatch without states of `version`."""

    def history(self, user_id: int | str, version: str | None = None) -> list[int]:
        """Item rows of the bundle and of live events, oldest first."""

    def row(self, user_id: int | str, version: str | None = None) -> int:
        """Row of a user in the training data, -1 for one who was not there or was forgotten."""

    def changed(self, version: str | None = None) -> list[int | str]:
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
