"""The column buffer of a writer, and how it becomes parts: whole requests, one pair of files per hour."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.manifest import Part, append_parts
from shortlist.feedback.parts import HOUR_MS, ParquetBuffer, part_path, partition, write_bytes
from shortlist.feedback.record import LoggedRequests, concat
from shortlist.feedback.schema import SCHEMA_VERSION, as_id, candidates_table, requests_table

Contexts = list[dict[str, Any] | None]


@dataclass
class Buffer:
    """Records that are not on the disk yet, and counts of requests that never will be."""

    items: Vocabulary
    text_users: bool = False
    context: pa.DataType | None = None
    score_bits: int = 32
    row_group: int = 1 << 17
    records: list[tuple[LoggedRequests, Contexts]] = field(default_factory=list)
    nbytes: int = 0
    began: float = 0.0  # when the oldest record came
    seq: int = 0
    latest: int = -(1 << 62)  # latest time of a request
    dropped: int = 0
    failed: int = 0
    skipped: int = 0
    backwards: int = 0
    users_not_stored: int = 0

    def add(self, record: LoggedRequests, contexts: Contexts, now: float) -> None:
        """Append requests; a request with an earlier time than one before it is counted.

        Whatever could fail later, with other requests, fails here.
        """
        if not len(record):
            return
        self._check(record, contexts)
        latest = np.maximum.accumulate(np.concatenate([[self.latest], record.ts_ms]))
        self.backwards += int((record.ts_ms < latest[:-1]).sum())
        self.latest = int(latest[-1])
        given = [user for user in record.user_id.tolist() if user is not None and user != ""]
        self.users_not_stored += sum(as_id(user, self.text_users) is None for user in given)
        self.began = self.began if self.records else now
        self.records += _by_hour(record, contexts)
        self.nbytes += record.nbytes

    def _check(self, record: LoggedRequests, contexts: Contexts) -> None:
        _context(contexts, self.context)
        for hour in np.unique(record.ts_ms // HOUR_MS).tolist():
            partition(hour)
        outside = (record.item_id < 0) | (record.item_id >= len(self.items))
        if outside.any():
            raise DataError(
                f"log: expected rows of the catalogue's {len(self.items)} items, got {record.item_id[outside][0]}; "
                "give the logger the vocabulary of the pipeline"
            )

    @property
    def n_requests(self) -> int:
        return sum(len(record) for record, _ in self.records)

    def lose(self) -> None:
        """Count the requests as failed and start again."""
        self.failed += self.n_requests
        self.records, self.nbytes = [], 0
        self.seq += 1

    def clear(self) -> None:
        """Start again after a part was written."""
        self.seq += 1 if self.records else 0
        self.records, self.nbytes = [], 0
        self.dropped = self.failed = self.skipped = self.backwards = self.users_not_stored = 0


def write_buffer(root: Path, writer: str, buffer: Buffer) -> dict[str, int]:
    """Write all records, one pair of parts per hour, and then their lines; the counts go into the last line.

    Both lines of a pair are one write. If only the first is complete, readers ignore the pair.
    """
    hours: dict[int, list[tuple[LoggedRequests, Contexts]]] = {}
    for entry in buffer.records:
        hours.setdefault(int(entry[0].ts_ms[0]) // HOUR_MS, []).append(entry)
    lost: dict[str, Any] = {
        "dropped_requests": buffer.dropped,
        "failed_requests": buffer.failed,
        "skipped_requests": buffer.skipped,
        "clock_backwards": buffer.backwards,
        "users_not_stored": buffer.users_not_stored,
    }
    parts = [part for hour in sorted(hours) for part in _pair(root, writer, hour, hours[hour], buffer)]
    if not parts and any(lost.values()):
        parts = [Part("requests", "", 0, 0, 0, "", SCHEMA_VERSION, writer, buffer.seq)]
    if parts:
        append_parts(root, [*parts[:-1], replace(parts[-1], **lost)])
    return {
        "written": buffer.n_requests,
        "dropped": buffer.dropped,
        "failed": buffer.failed,
        "skipped": buffer.skipped,
    }


def _pair(
    root: Path, writer: str, hour: int, entries: list[tuple[LoggedRequests, Contexts]], buffer: Buffer
) -> list[Part]:
    """The part of candidates and the part of requests of one hour; row group j of both has the same requests."""
    depth = max(record.depth for record, _ in entries)
    nominators = max(record.nominator_ranks.shape[1] for record, _ in entries)
    entries = sorted(entries, key=lambda entry: int(entry[0].request_id[0]))
    candidates, requests = ParquetBuffer(), ParquetBuffer()
    for group in _row_groups(entries, buffer.row_group):
        record, contexts = _joined(group, depth, nominators)
        candidates.write(candidates_table(record, buffer.items, buffer.score_bits))
        requests.write(requests_table(record, _context(contexts, buffer.context), buffer.text_users))
    records = [record for record, _ in entries]
    rows, span = sum(one.n_candidates for one in records), _span(records)
    where = (hour, writer, buffer.seq)
    return [
        write_part(root, "candidates", *where, rows, span, candidates.finish()),
        write_part(root, "requests", *where, sum(map(len, records)), span, requests.finish()),
    ]


def _span(records: list[LoggedRequests]) -> tuple[int, int, int, int]:
    """The first and the last time, the smallest and the largest request id."""
    times, ids = (np.concatenate([getattr(one, name) for one in records]) for name in ("ts_ms", "request_id"))
    return int(times.min()), int(times.max()), int(ids.min()), int(ids.max())


def write_part(
    root: Path,
    table: str,
    hour: int,
    writer: str,
    seq: int,
    rows: int,
    span: tuple[int, int, int, int],
    data: bytes,
) -> Part:
    """Write one part and return its line for the manifest; `span` has the ranges of times and of request ids."""
    path = part_path(table, hour, writer, seq)
    digest = write_bytes(root, path, data)
    low, high, first, last = span
    return Part(table, path, rows, low, high, digest, SCHEMA_VERSION, writer, seq, first, last, len(data))


def _row_groups(
    entries: list[tuple[LoggedRequests, Contexts]], size: int
) -> list[list[tuple[LoggedRequests, Contexts]]]:
    """Entries in groups of at least `size` candidates; small steps keep the interpreter lock short."""
    groups: list[list[tuple[LoggedRequests, Contexts]]] = [[]]
    rows = 0
    for entry in entries:
        if rows >= size:
            groups.append([])
            rows = 0
        groups[-1].append(entry)
        rows += entry[0].n_candidates
    return groups


def _joined(
    group: list[tuple[LoggedRequests, Contexts]], depth: int, nominators: int
) -> tuple[LoggedRequests, Contexts]:
    """One record in the order of request ids."""
    record = concat([one for one, _ in group]).widened(depth).with_nominators(nominators)
    contexts = [context for _, some in group for context in some]
    order = np.argsort(record.request_id, kind="stable")
    return record.take(order), [contexts[row] for row in order]


def _context(contexts: Contexts, kind: pa.DataType | None) -> pa.Array | None:
    """Contexts as a struct column; without a declared type they are not stored."""
    return None if kind is None else pa.array(contexts, kind)


def _by_hour(record: LoggedRequests, contexts: Contexts) -> list[tuple[LoggedRequests, Contexts]]:
    """The requests of a record, split where they belong to different hours."""
    hours = record.ts_ms // HOUR_MS
    if (hours == hours[0]).all():
        return [(record, contexts)]
    parts = [np.flatnonzero(hours == hour) for hour in np.unique(hours)]
    return [(record.take(rows), [contexts[row] for row in rows]) for rows in parts]
