"""Recommendations of many users in a file: whole or not at all, resumed where a run was stopped."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.artifact.lock import only_writer
from shortlist.artifact.os_errors import errors_name
from shortlist.artifact.staging import check_writable
from shortlist.errors import ConfigError
from shortlist.pipeline.batch.formats import format_of
from shortlist.pipeline.batch.job import BATCH, CELLS, PART, BatchJob
from shortlist.pipeline.batch.parts import Parts, digest
from shortlist.pipeline.batch.rows import degraded
from shortlist.pipeline.batch.table import SlateTable
from shortlist.progress import Progress, silent


@dataclass(frozen=True)
class Written:
    """What was written."""

    out: Path
    users: int  # answered
    rows: int
    empty: int  # users whose slate is empty
    unknown: int  # ids that are not in the bundle
    repeated: int  # ids given again; every user is answered once
    resumed: int  # users whose slates an earlier run had computed
    degraded: Mapping[str, int] = field(default_factory=dict)  # users by stage that failed and was skipped


def check_output(out: Path, force: bool) -> None:
    """Refuse before the work a file that cannot be written."""
    format_of(out)
    if out.is_dir():
        raise ConfigError(f"{out}: is a folder; expected a file")
    if out.exists() and not force:
        raise ConfigError(f"{out}: exists; replace it with --force (force=True) or choose another file")
    check_writable(out)


def write_job(
    job: BatchJob,
    table: SlateTable,
    out: Path,
    key: Mapping[str, Any] | None,
    force: bool = False,
    progress: Progress = silent,
) -> Written:
    """Write the slates of a job to `out`.

    Finished parts stay in a hidden folder beside `out` until it is complete. A later run with the same `key` reads
    them; without a key nothing is resumed.
    """
    counts, skipped = Counter[str](), Counter[str]()
    with errors_name(out), only_writer(out):
        check_output(out, force)  # again: another process may have written it before the lock was ours
        parts = Parts.open(out, key)
        draft = parts.folder / f"draft{out.suffix}"
        rows = _counted(_resumed(job, parts, counts, progress), counts, skipped)
        format_of(out)(draft, table.schema, map(table.batch, rows))
        draft.replace(out)
        parts.remove()
    users, empty = job.users, len(job.users) - counts["answered"]
    return Written(
        out, len(users), counts["rows"], empty, users.unknown, users.repeated, counts["resumed"], skipped
    )


def job_key(job: BatchJob, version: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a run must share with an earlier one to use its parts; None for a bundle without a version."""
    sizes = {"part": PART, "batch": BATCH, "cells": CELLS}
    users = digest(job.users.ids)
    return {"bundle": version, "users": users, "sizes": sizes, **options} if version else None


def _resumed(
    job: BatchJob, parts: Parts, counts: Counter[str], progress: Progress
) -> Iterator[pa.RecordBatch]:
    """The rows of all parts in order: those on disk, and the missing ones, which are computed and stored."""
    every = job.parts
    missing = [number for number in range(len(every)) if parts.read(number) is None]
    computed = job.rows([every[number] for number in missing])
    todo, total = set(missing), len(job.users)
    progress("recommend", 0, total)
    for number, places in enumerate(every):
        if number in todo:
            rows = next(computed)
            parts.write(number, rows)
        else:
            rows = parts.read(number)
            counts["resumed"] += len(places)
        yield rows
        progress("recommend", int(places[-1]) + 1, total)


def _counted(
    batches: Iterator[pa.RecordBatch], counts: Counter[str], skipped: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """The same batches; adds their rows, non-empty slates and skipped stages to the counts."""
    for rows in batches:
        counts["rows"] += len(rows)
        counts["answered"] += pc.sum(pc.equal(rows["rank"], 1)).as_py() or 0
        skipped.update(degraded(rows))
        yield rows
