"""Slates of 100,000 users in a Parquet file, over scoring alone: the cost of reading, writing and resuming."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.lab.bench.pipeline import ITEMS, real_stages
from shortlist.lab.bench.timing import estimates
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.pipeline import About, Recommender
from shortlist.pipeline.batch import select_users
from shortlist.pipeline.batch.job import BatchJob, Places, workers
from shortlist.progress import Progress, silent
from shortlist.state.histories import UserHistories

USERS = 100_000
LENGTH = 30.0  # mean length of a history


def bench_batch(seed: int = 0, users: int = USERS, progress: Progress = silent) -> Result:
    """Half of the users are scored before the file is written and half after it, so that both see the same load.

    Scoring alone runs the stages on the same batches with the same threads, and keeps nothing of the slates.
    """
    began = start()
    recommender = random_recommender(seed, users)
    job = BatchJob(
        recommender.pipeline,
        recommender.histories,
        select_users(recommender.users),
        recommender.about.ends,
        0,
    )
    halves = job.parts[::2], job.parts[1::2]
    list(job.rows(job.parts[:1]))  # warmup
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        scoring = [_seconds_of_scoring(job, halves[0])]
        out, before = Path(folder, "recs.parquet"), time.perf_counter()
        written = recommender.write_recommendations(out, progress=progress)
        everything = time.perf_counter() - before
        size = out.stat().st_size
    scoring += [_seconds_of_scoring(job, halves[1])]
    claims = [at_most("all_over_scoring", "target of this project", everything / sum(scoring), 2.0)]
    rows = [
        row("recommend --all", "seconds", [everything]),
        row("scoring alone", "seconds", [sum(scoring)]),
        row("recommend --all", "users_per_second", [users / everything]),
        row("recommend --all", "rows", [written.rows]),
        row("recommend --all", "file_mib", [size / 2**20]),
    ]
    profile = f"{users} users, {ITEMS} items, 6 stages, {torch.get_num_threads()} threads"
    return result("batch", profile, [seed], began, rows, claims, figures=estimates(claims))


def random_recommender(seed: int, users: int) -> Recommender:
    """Real stages with random weights, and random histories of very different lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / LENGTH, users) - 1
    starts = torch.from_numpy(np.concatenate([[0], lengths.cumsum()]))
    items = torch.from_numpy(rng.integers(0, ITEMS, int(lengths.sum())))
    ids = Vocabulary.of([f"item-{number}" for number in range(ITEMS)])
    catalog = Catalog(ids, pa.table({"title": [f"Title of item {number}" for number in range(ITEMS)]}))
    people = Vocabulary.of([f"user-{number}" for number in range(users)])
    about = replace(About(), name="bench", version="bench")
    return Recommender(real_stages(seed), catalog, people, UserHistories(starts, items), about)


def _seconds_of_scoring(job: BatchJob, parts: Sequence[Places]) -> float:
    """The time of the stages on the batches of some parts."""
    began = time.perf_counter()
    batches = [batch for places in parts for batch in job.batches(places)]
    with workers() as pool:
        for _ in pool.map(lambda batch: len(job.slate(batch).items), batches):
            pass
    return time.perf_counter() - began
