"""Snapshots: the states of one version in an artifact, with the length of the log that is in them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.artifact import Artifact, Lineage, load, save
from shortlist.artifact.tensor_checks import check_floats, check_shape, check_whole
from shortlist.errors import ArtifactError, VersionMismatch
from shortlist.state.events.batch import Batch, sorted_events
from shortlist.state.events.event import UserKey
from shortlist.state.table.promotion import Promoted
from shortlist.state.table.records import INTERIM, PRESENT, Records, vectors_of
from shortlist.state.table.table import StateTable

KIND = "user_states"
REMEDY = "start without the snapshot, states are then computed from the log"
STATES, USERS = "states.safetensors", "users.json"


def write_snapshot(path: Path, table: StateTable, overwrite: bool) -> None:
    """Write all records; the log is settled."""
    table.has_record(np.zeros(0, np.int32))
    numbers = np.flatnonzero(table.records.values["flags"] & PRESENT)
    place = {int(number): at for at, number in enumerate(numbers)}
    promoted = [user for user in sorted(table.promoted) if user in place]
    cuts = sorted(table.cuts)
    users = [table.log.users[number] for number in numbers.tolist()]
    records = np.ascontiguousarray(table.records.values[numbers])
    own = [table.promoted[user] for user in promoted]
    tensors = {
        "records": torch.from_numpy(records.view(np.uint8).reshape(len(records), table.kind.itemsize).copy()),
        "promoted": _whole([place[user] for user in promoted]),
        "promoted_events": _whole([one.events for one in own]),
        "promoted_keys": _keys([one.key for one in own]),
        "promoted_vectors": torch.from_numpy(
            np.array([one.vector for one in own], np.float32).reshape(len(own), table.recurrences.width)
        ),
        "cut_keys": _keys([table.cuts[user] for user in cuts]),
    }
    about = _facts(table) | {"offset": table.log.size, "users": len(users)}
    cut_users = [table.log.users[user] for user in cuts]
    names = json.dumps({"users": users, "cut": cut_users})
    save(path, KIND, {STATES: tensors, USERS: names}, Lineage(), about, overwrite)


def read_snapshot(path: Path, table: StateTable) -> int:
    """Replace the records of a table by those of a snapshot and replay the later events of the log; their number."""
    found = load(path, KIND)
    _check_version(path, found.about, table)
    tensors = found.tensors(STATES)
    names = _names(path, found)
    records = _records(path, tensors, len(names["users"]), table)
    offset = found.about.get("offset")
    if not isinstance(offset, int) or not 0 <= offset <= table.log.size:
        raise ArtifactError(
            f"{path}: was made after {offset} events, the log has {table.log.size}; restore it with its own log"
        )
    numbers = np.array([table.log.number(user) for user in names["users"]], np.int32)
    kept = np.flatnonzero(numbers >= 0)  # the others were forgotten
    own = _promoted(tensors, numbers, table.recurrences.width)
    cuts = dict(
        zip([table.log.number(user) for user in names["cut"]], _pairs(tensors["cut_keys"]), strict=True)
    )
    tail = table.log.rows_since(offset)
    later = np.unique(table.log.owner.values[tail])
    _check_log(path, table, numbers[kept], records[kept], later)
    table.clear()
    table.promoted, table.cuts = own, {user: key for user, key in cuts.items() if user >= 0}
    table.take(numbers[kept], records[kept])
    _replay(table, tail)
    return len(tail)


def without_user(path: Path | str, user: UserKey) -> None:
    """Write a snapshot again without a user."""
    path = Path(path)
    found = load(path, KIND)
    names, tensors = _names(path, found), found.tensors(STATES)
    place = names["users"].index(user) if user in names["users"] else len(names["users"])
    kept = torch.arange(len(names["users"])) != place
    stays = tensors["promoted"] != place
    promoted = tensors["promoted"][stays]
    cut = torch.tensor([one != user for one in names["cut"]], dtype=torch.bool)
    tensors = {
        "records": tensors["records"][kept],
        "promoted": promoted - (promoted > place).long(),
        **{name: tensors[name][stays] for name in ("promoted_events", "promoted_keys", "promoted_vectors")},
        "cut_keys": tensors["cut_keys"][cut],
    }
    left = {name: [one for one in ids if one != user] for name, ids in names.items()}
    about = dict(found.about) | {"users": len(left["users"])}
    save(path, KIND, {STATES: tensors, USERS: json.dumps(left)}, Lineage(), about, overwrite=True)


def _facts(table: StateTable) -> dict[str, Any]:
    return {
        "version": table.version,
        "storage": table.settings.storage,
        "width": table.recurrences.width,
        "record_bytes": table.kind.itemsize,
    }


def _check_version(path: Path, about: Mapping[str, Any], table: StateTable) -> None:
    expected = _facts(table)
    if about.get("version") != table.version:
        raise VersionMismatch(
            f"{path}: has states of model version {about.get('version')}, expected {table.version}; restore it "
            "with its own model and migrate"
        )
    for name, value in expected.items():
        if about.get(name) != value:
            raise ArtifactError(f"{path}: has {name} {about.get(name)}, expected {value}; {REMEDY}")


def _names(path: Path, found: Artifact) -> dict[str, list[UserKey]]:
    names = json.loads(found.text(USERS))
    if not isinstance(names, dict) or not all(isinstance(names.get(one), list) for one in ("users", "cut")):
        raise ArtifactError(f"{path}: {USERS} has no lists of users; {REMEDY}")
    return names


def _records(path: Path, tensors: Mapping[str, Tensor], count: int, table: StateTable) -> Records:
    expected = {"records", "promoted", "promoted_events", "promoted_keys", "promoted_vectors", "cut_keys"}
    if set(tensors) != expected or tensors["records"].dtype != torch.uint8:
        raise ArtifactError(f"{path}: has {sorted(tensors)}, expected {sorted(expected)}; {REMEDY}")
    check_shape("records", tensors["records"], count, table.kind.itemsize)
    records: Records = np.frombuffer(tensors["records"].numpy().tobytes(), table.kind).copy()
    if not np.isfinite(vectors_of(records)).all():
        raise ArtifactError(f"{path}: a state is not finite; {REMEDY}")
    records["model_version"] = table.number
    return records


def _promoted(tensors: Mapping[str, Tensor], numbers: NDArray[np.int32], width: int) -> dict[int, Promoted]:
    places, vectors = tensors["promoted"], tensors["promoted_vectors"]
    check_whole("promoted", places, 0, max(len(numbers), 1))
    check_shape("promoted_vectors", vectors, len(places), width)
    check_floats("promoted_vectors", vectors)
    check_shape("promoted_events", tensors["promoted_events"], len(places))
    keys, events = _pairs(tensors["promoted_keys"]), tensors["promoted_events"].tolist()
    users = numbers[places.numpy()].tolist()
    own = zip(users, vectors.numpy(), events, keys, strict=True)
    return {user: Promoted(vector, count, key) for user, vector, count, key in own if user >= 0}


def _check_log(
    path: Path, table: StateTable, users: NDArray[np.int32], records: Records, later: NDArray[np.int32]
) -> None:
    """Refuse another log: users without later events must have their last event in it."""
    same = ~np.isin(users, later)
    times = np.maximum(table.log.last_time.values[users], table.bundle.floor[0])
    interim = (records["flags"] & INTERIM) > 0
    wrong = same & (records["last_ts"] != times) & ~interim
    if wrong.any():
        raise ArtifactError(
            f"{path}: the last event of {int(wrong.sum())} users is another one in the log; restore it with its own log"
        )


def _replay(table: StateTable, rows: NDArray[np.int32]) -> None:
    """Move restored records by later events; a user whose later events are not all later is computed when needed."""
    log = table.log
    batch = Batch(log.owner.values[rows], log.item.values[rows], log.time.values[rows], log.id.values[rows])
    if not len(batch):
        return
    events = sorted_events(batch)
    users, first = events.users, events.starts[:-1]
    records = table.records.values[users]
    times, ids = events.times[first], events.ids[first]
    after = (times > records["last_ts"]) | ((times == records["last_ts"]) & (ids > records["last_event_id"]))
    good = after & table.follows(users)
    clean = events.take(np.flatnonzero(good))
    table.store(clean, table.advanced(clean))
    table.lose(users[~good])


def _whole(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _keys(keys: list[tuple[int, int]]) -> Tensor:
    """Times and ids [K, 2]; an id without sign becomes the number with the same bits."""
    times, ids = np.array([one[0] for one in keys], np.int64), np.array([one[1] for one in keys], np.uint64)
    return torch.from_numpy(np.stack([times, ids.view(np.int64)], axis=1).reshape(len(keys), 2))


def _pairs(keys: Tensor) -> list[tuple[int, int]]:
    check_shape("keys", keys, None, 2)
    check_whole("keys", keys, -(2**63), 2**63)
    values = keys.numpy()
    return list(zip(values[:, 0].tolist(), values[:, 1].copy().view(np.uint64).tolist(), strict=True))
