"""The reader of the log: finished parts only, one row group at a time, whatever is unusable counted and explained."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import DataError
from shortlist.feedback.manifest import Manifest, Part, read_manifest, sha256_of
from shortlist.feedback.problems import Problems
from shortlist.feedback.record import MISSING, Array, LoggedRequests
from shortlist.feedback.schema import SCHEMA_VERSION, record_of

FOREVER = 1 << 62
CLOSE = 1e-3  # relative difference of a stratum's size from the sum of 1 / incl_prob, which is rounding


@dataclass(frozen=True, eq=False)
class PartPair:
    """The two parts with the same requests."""

    requests: Part
    candidates: Part


@dataclass(frozen=True, eq=False)
class LogReader:
    """The requests of a log with since <= ts_ms < until; `check` compares the sha256 of every file.

    `problems` fills while requests are read.
    """

    root: Path
    since: int = -FOREVER
    until: int = FOREVER
    check: bool = False
    scores: bool = True  # whether scores and ranks are read; without them they are NaN and 0
    problems: Problems = field(default_factory=Problems)

    def __post_init__(self) -> None:
        if not Path(self.root).is_dir():
            raise DataError(f"{self.root}: expected the folder of a log, found none; check the path")
        object.__setattr__(self, "root", Path(self.root))

    @cached_property
    def manifest(self) -> Manifest:
        found = read_manifest(self.root)
        for sentence in found.bad_lines:
            self.problems.add("bad_manifest_lines", sentence)
        return found

    @cached_property
    def pairs(self) -> tuple[PartPair, ...]:
        """Usable pairs of parts in the order of time."""
        usable = {name: self._usable(name) for name in ("requests", "candidates")}
        for name, other in (("requests", "candidates"), ("candidates", "requests")):
            for key in usable[name].keys() - usable[other].keys():
                path = usable[name][key].path
                self.problems.add(
                    "incomplete_parts", f"{path}: the part of {other} is not usable; both are left out"
                )
        both = usable["requests"].keys() & usable["candidates"].keys()
        return tuple(PartPair(usable["requests"][key], usable["candidates"][key]) for key in sorted(both))

    @cached_property
    def text_items(self) -> bool | None:
        """Whether item ids are text; None for a log without requests."""
        for pair in self.pairs:
            with suppress(OSError, pa.ArrowException):
                kind = pq.read_schema(self.root / pair.candidates.path).field("item_id").type
                return bool(pa.types.is_string(kind))
        return None

    def requests(self) -> Iterator[LoggedRequests]:
        """All requests, as one record per row group; a request that was logged twice is returned once."""
        folder, seen = "", list[Array]()  # ids of the records of one hour
        for pair in self.pairs:
            if pair.requests.key[0] != folder:
                folder, seen = pair.requests.key[0], []
            for record in self._records(pair):
                fresh = self._fresh(record, seen) if len(record) else record
                if len(fresh):
                    seen.append(np.sort(fresh.request_id))
                    yield fresh

    def _usable(self, table: str) -> dict[tuple[str, str, int], Part]:
        """Parts of a table that overlap the time range and can be read."""
        parts = {part.key: part for part in self.manifest.of(table)}
        return {key: part for key, part in parts.items() if self._overlaps(part) and self.is_usable(part)}

    def _overlaps(self, part: Part) -> bool:
        return part.max_ts >= self.since and part.min_ts < self.until

    def is_usable(self, part: Part) -> bool:
        """Whether the schema is known and the file is there, with the right hash if that is checked."""
        path = self.root / part.path
        if part.schema_version != SCHEMA_VERSION:
            self.problems.add(
                "unknown_schema",
                f"{part.path}: expected schema version {SCHEMA_VERSION}, got {part.schema_version}; read it with the "
                "version of shortlist that wrote it",
            )
        elif not path.is_file():
            self.problems.add("bad_parts", f"{part.path}: is in the manifest but not on the disk")
        elif self.check and sha256_of(path) != part.sha256:
            self.problems.add(
                "bad_parts", f"{part.path}: its sha256 is not that of the manifest; restore the file"
            )
        else:
            return True
        return False

    def _records(self, pair: PartPair) -> Iterator[LoggedRequests]:
        """The row groups of a pair; a file that cannot be read ends the pair."""
        try:
            files = [pq.ParquetFile(self.root / part.path) for part in (pair.requests, pair.candidates)]
            for number in range(files[0].num_row_groups):
                requests = files[0].read_row_group(number)
                candidates = files[1].read_row_group(number, columns=self._columns(files[1]))
                yield self._inside(record_of(requests, candidates, pair.requests.path))
        except (OSError, pa.ArrowException, DataError, ValueError, KeyError, IndexError, TypeError) as error:
            self.problems.add("bad_parts", f"{pair.requests.path}: {type(error).__name__}: {error}")

    def _columns(self, file: pq.ParquetFile) -> list[str] | None:
        """The columns to read, None for all."""
        if self.scores:
            return None
        return [name for name in file.schema_arrow.names if not name.startswith(("score_", "rank_"))]

    def _inside(self, record: LoggedRequests) -> LoggedRequests:
        """The requests of the time range whose candidates add up to the counts of the funnel."""
        inside = (record.ts_ms >= self.since) & (record.ts_ms < self.until)
        whole = adds_up(record)
        for row in np.flatnonzero(inside & ~whole):
            self.problems.add(
                "missing_stages",
                f"request {record.request_id[row]}: the logged candidates are not those of n_in "
                f"{record.n_in[row].tolist()} and n_out {record.n_out[row].tolist()}; it is left out",
            )
        return record if (inside & whole).all() else record.take(np.flatnonzero(inside & whole))

    def _fresh(self, record: LoggedRequests, seen: list[Array]) -> LoggedRequests:
        """The requests that were not read before; records of other ranges of ids cannot hold them."""
        ids = record.request_id
        fresh = np.zeros(len(record), bool)
        fresh[np.unique(ids, return_index=True)[1]] = True
        for known in seen:
            if known[0] <= ids.max() and known[-1] >= ids.min():
                fresh &= ~np.isin(ids, known)
        for row in np.flatnonzero(~fresh):
            self.problems.add(
                "duplicate_requests", f"request {record.request_id[row]} was logged more than once"
            )
        return record if fresh.all() else record.take(np.flatnonzero(fresh))


def adds_up(record: LoggedRequests) -> Array:
    """Whether the sum of 1 / incl_prob of each sampled stratum is its size in the funnel [R].

    Ranked and filtered candidates of a stratum are sampled apart, so each has its own sum. A stratum without rows is
    not sampled, unless it must be there: the served candidates, and every stratum of a complete request. Unknown
    probabilities cannot be checked.
    """
    width = record.depth + 1
    if not len(record):
        return np.zeros(0, bool)
    counts_fall = ((record.n_out <= record.n_in) | (record.n_out < 0)).all(axis=1) & (record.n_stages > 0)
    in_range = (record.stage >= 0) & (record.stage <= record.n_stages[record.request])
    stage = np.where(in_range, record.stage, 0)
    filtered = record.filtered_strata()
    apart = record.filtered & (filtered[:, 0] != MISSING)[record.request]
    group = (record.request * width + stage) * 2 + apart
    size = len(record) * width * 2
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / record.incl_prob
    weight = np.bincount(group, inverse, minlength=size).reshape(-1, width, 2)
    logged = np.bincount(group, minlength=size).reshape(-1, width, 2) > 0
    removed = np.maximum(filtered, 0)
    strata = np.stack([record.strata() - removed, removed], axis=2)  # [R, T + 1, 2]
    served = np.arange(width) == record.n_stages[:, None]
    needed = logged | ((served | record.complete[:, None])[:, :, None] & (strata > 0))
    wrong = needed & ~(np.abs(weight - strata) <= CLOSE * np.maximum(strata, 1)) & ~np.isnan(weight)
    outside = np.bincount(record.request, ~in_range, minlength=len(record)) > 0
    whole: Array = counts_fall & ~wrong.any(axis=(1, 2)) & ~outside
    return whole
