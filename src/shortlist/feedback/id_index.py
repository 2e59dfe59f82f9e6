"""Rows of a table by a range of request ids: only the row groups that overlap the range are read."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shortlist.feedback.manifest import Part

KEPT = 64  # row groups that stay in memory
OPEN = 128  # files that stay open


@dataclass(frozen=True, eq=False)
class IdIndex:
    """Parts of one table whose rows are sorted by request id."""

    root: Path
    parts: Sequence[Part]
    columns: Sequence[str]
    _files: OrderedDict[str, pq.ParquetFile] = field(default_factory=OrderedDict)
    _ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _groups: OrderedDict[tuple[str, int], pa.Table] = field(default_factory=OrderedDict)

    def between(self, first: int, last: int) -> list[pa.Table]:
        """The rows with first <= request_id <= last, one table per row group."""
        overlapping = [part for part in self.parts if part.min_id <= last and part.max_id >= first]
        found = []
        for part in overlapping:
            for number, (low, high) in enumerate(self._row_groups(part)):
                if low <= last and high >= first:
                    found.append(_inside(self._row_group(part, number), first, last))
        return found

    def _row_groups(self, part: Part) -> list[tuple[int, int]]:
        """The range of ids in each row group, from the statistics of the file."""
        if part.path not in self._ranges:
            meta = self._file(part).metadata
            column = meta.schema.to_arrow_schema().get_field_index("request_id")
            stats = [meta.row_group(at).column(column).statistics for at in range(meta.num_row_groups)]
            self._ranges[part.path] = [
                (one.min, one.max) if one else (part.min_id, part.max_id) for one in stats
            ]
        return self._ranges[part.path]

    def _row_group(self, part: Part, number: int) -> pa.Table:
        key = (part.path, number)
        if key not in self._groups:
            self._groups[key] = self._file(part).read_row_group(number, columns=list(self.columns))
            if len(self._groups) > KEPT:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _file(self, part: Part) -> pq.ParquetFile:
        if part.path not in self._files:
            self._files[part.path] = pq.ParquetFile(self.root / part.path)
            if len(self._files) > OPEN:
                self._files.popitem(last=False)[1].close()
        return self._files[part.path]


def _inside(table: pa.Table, first: int, last: int) -> pa.Table:
    ids = table["request_id"]
    return table.filter(pc.and_(pc.greater_equal(ids, first), pc.less_equal(ids, last)))
