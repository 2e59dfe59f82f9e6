"""One job on a log, in a separate process so that its peak memory can be measured."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import torch

from shortlist.data import Vocabulary
from shortlist.feedback.join import join_feedback, labelled
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.outcomes import LabelRules
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import LoggedRequests
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.lab.bench.log.simulated import ITEMS, USERS
from shortlist.train.objectives.from_log import as_stage_log, usable_requests
from shortlist.train.objectives.instances import InstanceSampler
from shortlist.train.objectives.relabel import consecutive, relabel

WATERMARK = 1 << 42  # after every event
BATCH = 512  # instances
LOGGED = ("requests", "candidates")


@dataclass(frozen=True)
class Counted:
    """What a job went through."""

    requests: int
    rows: int  # candidates
    made: int  # rows that were scanned, labels, labels of stages, or instances


def scan(root: Path) -> Counted:
    """The pyarrow baseline: read all columns of requests, candidates and events, and keep nothing."""
    manifest = read_manifest(root)
    rows = {name: _scanned(root, [one.path for one in manifest.of(name)]) for name in (*LOGGED, "feedback")}
    return Counted(rows["requests"], rows["candidates"], sum(rows.values()))


def scan_used(root: Path) -> Counted:
    """The scan without the scores and ranks of stages, which labels and batches do not need."""
    manifest = read_manifest(root)
    paths = {name: [one.path for one in manifest.of(name)] for name in (*LOGGED, "feedback")}
    rows = {name: _scanned(root, own, without=("score_", "rank_")) for name, own in paths.items()}
    return Counted(rows["requests"], rows["candidates"], sum(rows.values()))


def join(root: Path) -> Counted:
    """Labels of all served candidates, written to the disk."""
    report = join_feedback(root, watermark=WATERMARK)
    rows = sum(part.rows for part in read_manifest(root).of("candidates"))
    return Counted(report.requests, rows, report.labels)


def labels(root: Path) -> Counted:
    """Every candidate with its label of the ladder."""
    requests = rows = made = 0
    for record in _labelled(root):
        z = relabel(record.stage, record.y, consecutive(record.depth), record.depth)
        requests, rows, made = requests + len(record), rows + len(z), made + int((~np.isnan(z)).sum())
    return Counted(requests, rows, made)


def batches(root: Path) -> Counted:
    """Training batches: an exposed positive with negatives of every stage, by rows of the catalogue."""
    items, users = Vocabulary.of(range(ITEMS)), Vocabulary.of(range(USERS))
    requests = rows = made = 0
    for record in _labelled(root):
        kept, _ = usable_requests(record.as_rows(items, users), record.depth)
        sampler = InstanceSampler(as_stage_log(kept, ITEMS, record.depth), batch_size=BATCH)
        made += sum(len(batch) for batch in sampler.batches(0))
        requests, rows = requests + len(record), rows + record.n_candidates
    return Counted(requests, rows, made)


JOBS: Mapping[str, Callable[[Path], Counted]] = {
    "scan": scan,
    "scan_used": scan_used,
    "join": join,
    "labels": labels,
    "batches": batches,
}


def _labelled(root: Path) -> Iterator[LoggedRequests]:
    return labelled(LogReader(root, scores=False), LabelRules().version)


def _scanned(root: Path, paths: list[str], without: tuple[str, ...] = ()) -> int:
    files = ds.dataset([str(root / path) for path in paths], format="parquet")
    names = [name for name in files.schema.names if not name.startswith(without)] if without else None
    options = {"use_threads": False, "batch_readahead": 2, "fragment_readahead": 1}
    return sum(batch.num_rows for batch in files.to_batches(columns=names, **options))


def main(job: str, root: str) -> None:
    """Run a job and print its seconds, counts and bytes as JSON."""
    began, cpu = time.perf_counter(), time.process_time()
    counted = JOBS[job](Path(root))
    times = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    sys.stdout.write(json.dumps({**vars(counted), **times, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    pa.set_cpu_count(1)
    torch.set_num_threads(1)
    main(*sys.argv[1:])
