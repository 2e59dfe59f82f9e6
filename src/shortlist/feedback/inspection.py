"""What a log holds and what is wrong with it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shortlist.feedback.events.append import EVENT_TABLES
from shortlist.feedback.events.spool import waiting_events
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import FOREVER, LogReader


@dataclass(frozen=True)
class Stratum:
    """Candidates with S = stage over all requests: nominated ones, and the logged rows that stand for them."""

    stage: int
    nominated: int
    logged: int
    weight: float  # sum of 1 / incl_prob, which estimates `nominated`
    filtered: int = 0  # of the nominated ones, those that a filter removed


@dataclass(frozen=True)
class LogSummary:
    """A log in numbers; `problems` says what was left out and why."""

    requests: int
    rows: int
    bytes: int
    since_ms: int | None
    until_ms: int | None  # time of the last request
    strata: tuple[Stratum, ...]
    funnels: Mapping[str, int]  # requests by the names of their stages
    complete_requests: int
    dropped_requests: int
    failed_requests: int
    skipped_requests: int
    clock_backwards: int
    users_not_stored: int  # user ids that are not of the type of the column
    events: int
    rejected_events: int
    waiting_events: int = 0  # on the disk, but in no part yet
    problems: Problems = field(default_factory=Problems)

    @property
    def bytes_per_row(self) -> float:
        return self.bytes / max(self.rows, 1)

    @property
    def explained(self) -> tuple[str, ...]:
        """One sentence per kind of problem."""
        return self.problems.explained


def inspect_log(
    root: Path | str, since: int = -FOREVER, until: int = FOREVER, check: bool = False
) -> LogSummary:
    """Read a whole log, one row group at a time, and sum it up."""
    reader = LogReader(Path(root), since, until, check)
    sums: Counter[str] = Counter()
    strata: Counter[tuple[str, int]] = Counter()
    weights: dict[int, float] = {}
    funnels: Counter[str] = Counter()
    times = list[int]()
    for record in reader.requests():
        sums += Counter(requests=len(record), rows=record.n_candidates, complete=int(record.complete.sum()))
        times += [int(record.ts_ms.min()), int(record.ts_ms.max())]
        for number, count in enumerate(np.bincount(record.funnel, minlength=len(record.funnels)).tolist()):
            funnels[" > ".join(record.funnels[number].stages)] += count
        for stage, count in enumerate(record.strata().sum(axis=0).tolist()):
            strata["nominated", stage] += count
        for stage, count in enumerate(np.maximum(record.filtered_strata(), 0).sum(axis=0).tolist()):
            strata["filtered", stage] += count
        for stage in np.unique(record.stage).tolist():
            rows = record.stage == stage
            strata["logged", stage] += int(rows.sum())
            weight = float((1.0 / record.incl_prob[rows].astype(np.float64)).sum())
            weights[stage] = weights.get(stage, 0.0) + weight
    stages = sorted({stage for _, stage in strata})
    lines = reader.manifest.parts
    events = [part for name in EVENT_TABLES for part in reader.manifest.of(name) if reader.is_usable(part)]
    return LogSummary(
        requests=sums["requests"],
        rows=sums["rows"],
        bytes=sum(pair.candidates.bytes for pair in reader.pairs),
        since_ms=min(times, default=None),
        until_ms=max(times, default=None),
        strata=tuple(
            Stratum(
                k, strata["nominated", k], strata["logged", k], weights.get(k, 0.0), strata["filtered", k]
            )
            for k in stages
        ),
        funnels=dict(funnels),
        complete_requests=sums["complete"],
        dropped_requests=sum(line.dropped_requests for line in lines),
        failed_requests=sum(line.failed_requests for line in lines),
        skipped_requests=sum(line.skipped_requests for line in lines),
        clock_backwards=sum(line.clock_backwards for line in lines),
        users_not_stored=sum(line.users_not_stored for line in lines),
        events=sum(part.rows for part in events),
        rejected_events=sum(line.rejected_events for line in lines),
        waiting_events=waiting_events(reader.root),
        problems=reader.problems,
    )
