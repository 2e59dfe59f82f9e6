"""From the states of one model to those of another, beside each other."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.settings import check_fields, setting
from shortlist.state.linear_map import fitted_map
from shortlist.state.table.promotion import stays_active
from shortlist.state.table.records import INTERIM, NO_ITEM, PRESENT, set_vectors
from shortlist.state.table.table import StateTable

DAY_MS = 86_400_000
BLOCK = 4096  # users at a time

Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class MigrationPolicy:
    """Which users are replayed under the new model at once, with which events, and what the others have until then."""

    recent_days: float = setting(
        30.0,
        "Users with an event in these last days are replayed at once, the others at their next visit.",
        least=0,
        most=1e6,
    )
    last_events: int = setting(
        0, "Newest events of a user in the log that are replayed; 0: all.", least=0, most=1 << 31
    )
    interim: bool = setting(
        False,
        "Whether the others have vectors mapped from the old version until their next visit, if the map is good.",
    )
    ridge: float = setting(1e-6, "Weight of the squared entries of the map.", least=0, most=1e6)

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)


@dataclass(frozen=True)
class MigrationReport:
    """What a migration did; `correlation` is NaN where no map was fitted or no user held out."""

    version: str
    users: int  # with events
    replayed: int  # users
    lazy: int  # users who are computed at their next visit
    interim: int  # of them, users with a mapped vector until then
    events_left_out: int  # older than the newest that are replayed
    unknown_items: int  # items of the log that the new catalogue does not have
    correlation: float  # of held-out scores under the map
    held_out: int  # users
    map_allowed: bool


def filled(table: StateTable, old: StateTable, now_ms: int, policy: MigrationPolicy) -> MigrationReport:
    """Fill the new table by the policy; the log is settled."""
    users = table.log.with_events()
    left_out = _cut(table, users, policy.last_events)
    recent = table.log.last_time.values[users] >= now_ms - policy.recent_days * DAY_MS
    for at in range(0, int(recent.sum()), BLOCK):
        table.ensure(users[recent][at : at + BLOCK])
    _take_over(table, old)
    lazy = users[~table.follows(users)]
    found = _interim(table, old, users[recent], lazy, policy.ridge) if policy.interim else None
    numbers = np.arange(len(table.log.items))
    return MigrationReport(
        version=table.version,
        users=len(users),
        replayed=len(users) - len(lazy),
        lazy=len(lazy),
        interim=int(table.has_record(lazy).sum()),
        events_left_out=left_out,
        unknown_items=int((table.bundle.item_rows(numbers) < 0).sum()),
        correlation=float("nan") if found is None else found[0],
        held_out=0 if found is None else found[1],
        map_allowed=found is not None and found[2],
    )


def _cut(table: StateTable, users: Numbers, last: int) -> int:
    """Leave out all but the last events of each user; how many events that are."""
    left_out = 0
    for user in users.tolist() if last else ():
        rows = table.log.rows(user, table.bundle.floor_of(user))
        if len(rows) > last:
            row = rows[len(rows) - last - 1]
            table.cuts[user] = int(table.log.time.values[row]), int(table.log.id.values[row])
            left_out += len(rows) - last
    return left_out


def _take_over(table: StateTable, old: StateTable) -> None:
    """Promote those who were promoted in the old table and have enough events for the new one."""
    rule = table.model.promotion()
    promoted = np.array(sorted(old.promoted), np.int32)
    if rule is None or not len(promoted):
        return
    table.ensure(promoted[~table.follows(promoted)])
    for user in promoted.tolist():
        if not table.is_active(user) and stays_active(rule, int(table.records.values["count"][user])):
            table.promote(user)


def _interim(
    table: StateTable, old: StateTable, both: Numbers, lazy: Numbers, ridge: float
) -> tuple[float, int, bool]:
    """Map the old vectors of users who are not replayed; the correlation of the map, on how many users, if allowed."""
    both, lazy = both[old.has_record(both)], lazy[old.has_record(lazy)]
    items = table.model.inputs().detach().double().numpy(force=True)
    found = fitted_map(_vectors(old, both), _vectors(table, both), items, ridge)
    if found.allowed and len(lazy):
        vectors = found(_vectors(old, lazy)).astype(np.float32)
        records = np.zeros(len(lazy), table.kind)
        set_vectors(records, vectors, np.abs(vectors).max(1) / 127)
        records["last_item"], records["model_version"] = NO_ITEM, table.number
        records["flags"] = PRESENT | INTERIM
        table.records.values[lazy] = records
    return found.correlation, found.held_out, found.allowed


def _vectors(table: StateTable, users: Numbers) -> NDArray[np.float64]:
    rows = table.bundle.user_rows(users)
    vectors: NDArray[np.float64] = table.vectors(users, rows).double().numpy()
    return vectors
