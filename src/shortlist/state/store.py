"""The store of user states in this process."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError, VersionMismatch
from shortlist.models.state_model import StateModel
from shortlist.state.event import UserEvent, checked
from shortlist.state.histories import UserHistories
from shortlist.state.log import EventLog
from shortlist.state.report import ApplyReport, MemoryReport
from shortlist.state.settings import StateSettings


class UserStateStore:
    """Minimal form: events in dictionaries, vectors from whole histories."""

    def __init__(
        self,
        model: StateModel | None,
        users: Vocabulary,
        items: Vocabulary,
        histories: UserHistories,
        version: str,
        settings: StateSettings = StateSettings(),  # noqa: B008
        log: EventLog | None = None,
    ) -> None:
        self.model, self.users, self.items, self.histories = model, users, items, histories
        self.version, self.settings, self.log = version, settings, log
        self._events: dict[str, dict[int, tuple[int, int, int]]] = {}
        self._forgotten: set[str] = set()

    def apply(self, events: Sequence[UserEvent], now_ms: int) -> ApplyReport:
        """Add events at once."""
        batch = checked(events, self.items, now_ms)
        applied = 0
        for user, item, time, key in zip(batch.users, batch.items, batch.times, batch.ids, strict=True):
            own = self._events.setdefault(str(user), {})
            applied += int(key) not in own
            own.setdefault(int(key), (int(time), int(key), int(item)))
        return ApplyReport(applied, len(batch.users) - applied, 0, batch.rejected)

    def history(self, user_id: int | str) -> list[int]:
        """Item rows of the bundle and of live events, oldest first."""
        known = [] if str(user_id) in self._forgotten else self.histories.of(self.users.row(user_id))
        live = sorted(self._events.get(str(user_id), {}).values())
        return (known + [item for _, _, item in live])[-self.settings.max_history :]

    def row(self, user_id: int | str) -> int:
        """Row of a user in the training data, -1 for one who was not there or was forgotten."""
        return UNKNOWN if str(user_id) in self._forgotten else self.users.row(user_id)

    def changed(self) -> list[int | str]:
        """Users whose answers are not those of the bundle."""
        return [*self._events, *(self._forgotten - set(self._events))]

    @torch.no_grad()
    def query(self, user_ids: Sequence[int | str], version: str | None = None) -> Tensor:
        """User vectors [B, D]."""
        if self.model is None:
            raise ConfigError(
                "this bundle has no model with a user state; add a two-time-scale stage and train again"
            )
        if version not in (None, self.version):
            raise VersionMismatch(f"expected version {self.version}, got {version}")
        found = [
            self.model.users(
                torch.tensor([self.history(user)], dtype=torch.int64), torch.tensor([self.row(user)])
            )
            for user in user_ids
        ]
        return torch.cat(found)

    def forget(self, user_id: int | str) -> None:
        """Remove everything of a user."""
        self._events.pop(str(user_id), None)
        self._forgotten.add(str(user_id))

    def memory(self) -> MemoryReport:
        """Bytes by part."""
        return MemoryReport(len(self._events), sum(map(len, self._events.values())), 0, 0, 0, 0, 0, 0)
