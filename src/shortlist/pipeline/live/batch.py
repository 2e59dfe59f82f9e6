"""The users of a batch with their live events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.pipeline.batch.users import UnknownUsers, Users, select_users
from shortlist.pipeline.live.states import NO_MODEL, state_versions, version_in
from shortlist.state import UserHistories, UserStates

if TYPE_CHECKING:  # its methods call these functions
    from shortlist.pipeline.recommender import Recommender


@dataclass(frozen=True, eq=False)
class BatchUsers:
    """The users of a batch and histories by their rows, which hold live events too."""

    users: Users
    histories: UserHistories
    states: UserStates | None = None  # with vectors of a model of the pipeline
    version: str | None = None  # of these vectors
    live: NDArray[np.bool_] | None = None  # whether users [U] are changed in the states


def batch_users(
    recommender: "Recommender", ids: Sequence[int | str] | pa.Array | None, unknown: UnknownUsers
) -> BatchUsers:
    """The users of a batch.

    Users who are not in the bundle, or were forgotten, get rows behind its users: a model knows nothing of these rows.
    """
    known, states = recommender.users, recommender.states
    if states is None:
        return BatchUsers(select_users(known, ids, unknown), recommender.histories)
    version = version_in(states, state_versions(recommender.pipeline))
    changed = states.changed(version)
    if not changed:
        return BatchUsers(select_users(known, ids, unknown), recommender.histories)
    every = known.extended(_vocabulary(changed, known))
    rows = [every.row(user) for user in changed]
    forgotten = [
        row for row, user in zip(rows, changed, strict=True) if states.row(user, version) != row < len(known)
    ]
    moved = {row: len(every) + place for place, row in enumerate(forgotten)}
    own = {
        moved.get(row, row): states.history(user, version) for row, user in zip(rows, changed, strict=True)
    }
    users = select_users(every, ids, unknown)
    if ids is None:
        users = _without(users, forgotten)
    places = np.array([moved.get(row, row) for row in users.rows.tolist()], np.int64)
    return BatchUsers(
        replace(users, rows=places),
        _merged(recommender.histories, own, len(every) + len(moved)),
        None if version == NO_MODEL else states,
        version,
        np.isin(users.rows, rows),
    )


def _vocabulary(users: Sequence[int | str], known: Vocabulary) -> Vocabulary:
    """A vocabulary of these ids, of the type of the known ones where every id keeps its text: "01" is not 1."""
    ids = pa.array(list(map(str, users)), pa.string())
    try:
        typed = ids.cast(known.ids.type)
    except pa.ArrowInvalid:
        return Vocabulary(ids)
    return Vocabulary(typed if typed.cast(pa.string()).equals(ids) else ids)


def _without(users: Users, rows: Sequence[int]) -> Users:
    kept = ~np.isin(users.rows, rows)
    return replace(users, ids=users.ids.filter(pa.array(kept)), rows=users.rows[kept])


def _merged(histories: UserHistories, own: dict[int, list[int]], count: int) -> UserHistories:
    """The histories of `count` users, some of them replaced by their `own`."""
    assert min(own) >= 0, "every changed user has a row"
    lengths = torch.zeros(count, dtype=torch.int64)
    lengths[: len(histories.starts) - 1] = histories.starts.diff()
    kept = torch.repeat_interleave(torch.arange(count), lengths)
    replaced = torch.zeros(count, dtype=torch.bool)
    for row, mine in own.items():
        lengths[row], replaced[row] = len(mine), True
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    items = torch.full((int(starts[-1]),), UNKNOWN, dtype=histories.items.dtype)
    place = torch.repeat_interleave(~replaced, lengths)
    items[place] = histories.items[~replaced[kept]]
    for row, mine in own.items():
        items[starts[row] : starts[row + 1]] = torch.tensor(mine, dtype=items.dtype)
    return UserHistories(starts, items)
