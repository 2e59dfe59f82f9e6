"""Snapshots: the states of one version in an artifact, with the length of the log that is in them."""

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
from shortlist.state.events.log import Key
from shortlist.state.table.promotion import Promoted
from shortlist.state.table.records import INTERIM, PRESENT, Records, vectors_of
from shortlist.state.table.table import StateTable

KIND = "user_states"
REMEDY = "start without the snapshot, states are then computed from the log"
STATES = "states.safetensors"
PARTS = {
    "users": ("records",),
    "promoted": ("promoted_events", "promoted_keys", "promoted_vectors"),
    "cut": ("cut_keys",),
}
"""The columns beside each column of users."""


def write_snapshot(path: Path, table: StateTable, overwrite: bool) -> None:
    """Write all records; the log is settled. Users are numbers of the log, so a snapshot has no ids."""
    numbers = np.flatnonzero(table.records.values["flags"] & PRESENT)
    promoted, cuts = sorted(table.promoted), sorted(table.cuts)
    records = np.ascontiguousarray(table.records.values[numbers])
    own = [table.promoted[user] for user in promoted]
    vectors = np.array([one.vector for one in own], np.float32).reshape(len(own), table.recurrences.width)
    tensors = {
        "records": torch.from_numpy(records.view(np.uint8).reshape(len(records), table.kind.itemsize).copy()),
        "users": torch.from_numpy(numbers.astype(np.int64)),
        "promoted": _whole(promoted),
        "promoted_events": _whole([one.events for one in own]),
        "promoted_keys": _keys([one.key for one in own]),
        "promoted_vectors": torch.from_numpy(vectors),
        "cut": _whole(cuts),
        "cut_keys": _keys([table.cuts[user] for user in cuts]),
    }
    save(path, KIND, {STATES: tensors}, Lineage(), _facts(table) | {"offset": table.log.size}, overwrite)


def read_snapshot(path: Path, table: StateTable) -> int:
    """Replace the records of a table by those of a snapshot and replay the later events of the log; their number."""
    found = load(path, KIND)
    _check_facts(path, found.about, table)
    tensors = _tensors(path, found)
    offset = found.about.get("offset")
    if not isinstance(offset, int) or not 0 <= offset <= table.log.size:
        raise ArtifactError(
            f"{path}: was made after {offset} events, the log has {table.log.size}; restore it with its own log"
        )
    users, records = _records(path, tensors, table)
    promoted, cuts = _promoted(tensors, table), _cuts(tensors, table)
    tail = table.log.rows_since(offset)
    _check_log(path, table, users, records, table.log.owner.values[tail])
    table.clear()
    table.promoted, table.cuts = promoted, cuts
    table.take(users, records)
    _replay(table, tail)
    return len(tail)


def without_users(path: Path | str, gone: NDArray[np.integer[Any]]) -> None:
    """Write a snapshot again without the users of these numbers."""
    found = load(path, KIND)
    tensors = _tensors(Path(path), found)
    numbers = torch.from_numpy(gone.astype(np.int64))
    for owner, columns in PARTS.items():
        kept = ~torch.isin(tensors[owner], numbers)
        tensors |= {name: tensors[name][kept] for name in (owner, *columns)}
    save(path, KIND, {STATES: tensors}, Lineage(), found.about, overwrite=True)


def _facts(table: StateTable) -> dict[str, Any]:
    return {
        "version": table.version,
        "storage": table.settings.storage,
        "width": table.recurrences.width,
        "record_bytes": table.kind.itemsize,
        "log": table.log.identity,
        "bundle": table.bundle.fingerprint,
        "since_ms": table.bundle.floor[0] + 1,
    }


def _check_facts(path: Path, about: Mapping[str, Any], table: StateTable) -> None:
    if about.get("version") != table.version:
        raise VersionMismatch(
            f"{path}: has states of model version {about.get('version')}, expected {table.version}; restore it "
            "with its own model and migrate"
        )
    for name, value in _facts(table).items():
        if about.get(name) != value:
            raise ArtifactError(f"{path}: has {name} {about.get(name)}, expected {value}; {REMEDY}")


def _tensors(path: Path, found: Artifact) -> dict[str, Tensor]:
    """The tensors, with columns of one length beside each column of users."""
    tensors = found.tensors(STATES)
    expected = {name for owner, columns in PARTS.items() for name in (owner, *columns)}
    if set(tensors) != expected:
        raise ArtifactError(f"{path}: has {sorted(tensors)}, expected {sorted(expected)}; {REMEDY}")
    for owner, columns in PARTS.items():
        check_shape(owner, tensors[owner], None)
        check_whole(owner, tensors[owner], 0, 2**31)
        for name in columns:
            own = tensors[name]
            if own.dim() == 0 or len(own) != len(tensors[owner]):
                raise ArtifactError(
                    f"{path}: {name} does not fit the {len(tensors[owner])} users of {owner}; {REMEDY}"
                )
    return tensors


def _records(
    path: Path, tensors: Mapping[str, Tensor], table: StateTable
) -> tuple[NDArray[np.int32], Records]:
    """The users who are in the log and were not forgotten, and their records."""
    if tensors["records"].dtype != torch.uint8:
        raise ArtifactError(f"{path}: records are {tensors['records'].dtype}, expected bytes; {REMEDY}")
    check_shape("records", tensors["records"], None, table.kind.itemsize)
    records: Records = np.frombuffer(tensors["records"].numpy().tobytes(), table.kind).copy()
    if not np.isfinite(vectors_of(records)).all():
        raise ArtifactError(f"{path}: a state is not finite; {REMEDY}")
    records["model_version"] = table.number
    users = tensors["users"].numpy()
    kept = _there(users, table)
    return users[kept].astype(np.int32), records[kept]


def _promoted(tensors: Mapping[str, Tensor], table: StateTable) -> dict[int, Promoted]:
    vectors = tensors["promoted_vectors"]
    check_shape("promoted_vectors", vectors, None, table.recurrences.width)
    check_floats("promoted_vectors", vectors)
    check_whole("promoted_events", tensors["promoted_events"], 0, 2**32)
    users, keys = tensors["promoted"].numpy(), _pairs(tensors["promoted_keys"])
    events, kept = tensors["promoted_events"].tolist(), _there(users, table)
    return {
        int(users[at]): Promoted(vectors[at].numpy().copy(), events[at], keys[at]) for at in kept.tolist()
    }


def _cuts(tensors: Mapping[str, Tensor], table: StateTable) -> dict[int, Key]:
    users, keys = tensors["cut"].numpy(), _pairs(tensors["cut_keys"])
    return {int(users[at]): keys[at] for at in _there(users, table).tolist()}


def _there(users: NDArray[np.int64], table: StateTable) -> NDArray[np.int64]:
    """The places of users who are in the log."""
    known = table.log.users
    kept = [at for at, user in enumerate(users.tolist()) if user < len(known) and known[user] is not None]
    return np.array(kept, np.int64)


def _check_log(
    path: Path, table: StateTable, users: NDArray[np.int32], records: Records, later: NDArray[np.int32]
) -> None:
    """Refuse another log: users without later events must have their last event in it."""
    same = ~np.isin(users, later) & ((records["flags"] & INTERIM) == 0)
    log = table.log
    last = zip(log.last_time.values[users].tolist(), log.last_id.values[users].tolist(), strict=True)
    expected = [max(key, table.bundle.floor_of(user)) for user, key in zip(users.tolist(), last, strict=True)]
    times, ids = np.array(expected, object).reshape(-1, 2).T
    wrong = same & ((records["last_ts"] != times) | (records["last_event_id"] != ids))
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
