"""RecFlow files as logged requests; rows whose flags contradict each other are counted."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.errors import DataError
from shortlist.feedback.recflow.export import NEGATIVES
from shortlist.feedback.record import MISSING, Array, LoggedRequests, logged_requests

STAGES = 5
NEEDED = (
    *(
        "request_id",
        "request_timestamp",
        "user_id",
        "video_id",
        "realshow",
        "rerank_pos",
        "rank_pos",
        *NEGATIVES,
    ),
    *("rank_index", "rerank_index"),
)
EXPLAINED: Mapping[str, str] = {
    "no_stage": "rows without a flag of any stage; S is 0",
    "several_stages": "rows with flags of several stages; S is the largest",
    "shown_but_not_served": "rows with realshow but not rerank_pos; shown is kept, S is not changed",
    "ranked_before_reached": "rows with rank_index or rerank_index of a stage that S says they never reached",
    "split_requests": "requests whose rows are not together; each piece is one request",
}


@dataclass(frozen=True, eq=False)
class RecflowReader:
    """Requests of a folder `all_stage` or of one feather file; `violations` fills while they are read.

    RecFlow keeps a sample of each stage without its size: incl_prob, n_in and n_out are not known.
    """

    path: Path
    label: str = "effective_view"
    violations: Counter[str] = field(default_factory=Counter)

    def requests(self) -> Iterator[LoggedRequests]:
        """One record per batch of a file, with whole requests; the rows of a request must follow each other."""
        for path in self._files():
            seen = np.array([], np.int64)
            for table in self._whole_requests(path):
                record = self.record(table)
                self.violations["split_requests"] += int(np.isin(record.request_id, seen).sum())
                seen = np.union1d(seen, record.request_id)
                yield record

    def record(self, table: pa.Table) -> LoggedRequests:
        """The requests of rows that are sorted by request."""
        columns = {name: _numbers(table[name]) for name in NEEDED if name not in ("user_id", "video_id")}
        ids = columns["request_id"]
        starts = (
            np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
            if len(ids)
            else np.zeros(0, np.int64)
        )
        stage = self._stage(columns)
        served = stage == STAGES
        unknown = np.full((len(starts), STAGES), MISSING, np.int32)
        ranks = np.zeros((len(ids), STAGES), np.int32)
        ranks[:, 3], ranks[:, 4] = (
            np.maximum(columns["rank_index"], 0),
            np.maximum(columns["rerank_index"], 0),
        )
        shown = (columns["realshow"] == 1).astype(np.int8)
        return logged_requests(
            ids[starts],
            columns["request_timestamp"][starts],
            _ids(table["user_id"])[starts],
            np.append(starts, len(ids)),
            _ids(table["video_id"]),
            stage,
            unknown,
            ranks=ranks,
            position=np.where(served, ranks[:, 4], 0).astype(np.int16),
            shown=shown,
            y=self._labels(table, shown),
        )

    def _files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        found = sorted(self.path.rglob("*.feather"))
        if not found:
            raise DataError(f"{self.path}: expected feather files of RecFlow, found none; check the path")
        return found

    def _whole_requests(self, path: Path) -> Iterator[pa.Table]:
        """Batches of a file that end where a request ends."""
        with pa.memory_map(str(path)) as source:
            file = pa.ipc.open_file(source)
            missing = [name for name in NEEDED if name not in file.schema.names]
            if missing:
                raise DataError(f"{path}: expected the RecFlow columns, {', '.join(missing)} are missing")
            names = [*NEEDED, *([self.label] if self.label in file.schema.names else [])]
            left: pa.Table | None = None
            for number in range(file.num_record_batches):
                batch = pa.Table.from_batches([file.get_batch(number)]).select(names)
                table = batch if left is None else pa.concat_tables([left, batch])
                ids = table["request_id"].to_numpy()
                others = np.flatnonzero(ids != ids[-1]) if len(ids) else ids
                cut = int(others[-1]) + 1 if len(others) else 0
                left = table.slice(cut)
                if cut:
                    yield table.slice(0, cut)
            if left is not None and len(left):
                yield left

    def _stage(self, columns: Mapping[str, Array]) -> Array:
        """S from the flags, with counts of rows that contradict themselves."""
        flags = np.stack([columns[name] == 1 for name in NEGATIVES] + [columns["rerank_pos"] == 1], axis=1)
        flags[:, 3] |= (columns["rank_pos"] == 1) & ~flags[:, 4]
        stage = np.where(flags.any(axis=1), STAGES - np.argmax(flags[:, ::-1], axis=1), 0)
        ranked = (columns["rank_index"] > 0) & (stage < 3) | (columns["rerank_index"] > 0) & (stage < 4)
        self.violations.update(
            no_stage=int((stage == 0).sum()),
            several_stages=int((flags.sum(axis=1) > 1).sum()),
            shown_but_not_served=int(((columns["realshow"] == 1) & (stage < STAGES)).sum()),
            ranked_before_reached=int(ranked.sum()),
        )
        return stage

    def _labels(self, table: pa.Table, shown: Array) -> Array:
        """y of the rows that were shown, -1 of all others."""
        if self.label not in table.column_names:
            return np.full(len(table), MISSING, np.int8)
        return np.where(shown == 1, _numbers(table[self.label]), MISSING).astype(np.int8)


def _numbers(column: Any) -> Array:
    """A column as int64; null is -1."""
    numbers: Array = pc.fill_null(column.cast(pa.int64(), safe=False), MISSING).to_numpy()
    return numbers


def _ids(column: Any) -> Array:
    return _numbers(column) if pa.types.is_integer(column.type) else np.array(column.to_pylist(), object)
