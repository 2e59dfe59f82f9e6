"""Recommendations to many users, as an Arrow stream or in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from shortlist import __version__
from shortlist.data import UNKNOWN
from shortlist.grammar import Pipeline
from shortlist.pipeline.batch.job import BatchJob, Observer
from shortlist.pipeline.batch.table import SlateTable
from shortlist.pipeline.batch.users import UnknownUsers, Users
from shortlist.pipeline.batch.write import Written, check_output, job_key, write_job
from shortlist.pipeline.live.batch import BatchUsers, batch_users
from shortlist.pipeline.offline import offline
from shortlist.pipeline.plugins import plugin_sources
from shortlist.progress import Progress, silent

if TYPE_CHECKING:  # its methods call these functions
    from shortlist.pipeline.recommender import Recommender

UserIds: TypeAlias = Sequence[int | str] | pa.Array


def stream(
    recommender: "Recommender", pipeline: Pipeline, users: UserIds | None, seed: int, unknown: UnknownUsers
) -> pa.RecordBatchReader:
    """The slates as record batches, which are computed while they are read."""
    job = _job(recommender, pipeline, batch_users(recommender, users, unknown), seed)
    table = _table(recommender, job)
    return pa.RecordBatchReader.from_batches(table.schema, map(table.batch, job.rows(job.parts)))


def write(
    recommender: "Recommender",
    pipeline: Pipeline,
    out: Path,
    users: UserIds | None,
    seed: int,
    unknown: UnknownUsers,
    force: bool = False,
    progress: Progress = silent,
    observe: Observer | None = None,
) -> Written:
    """The slates in a file; a run that was stopped is resumed, unless someone observes the slates or users are live."""
    check_output(out, force)
    job = _job(recommender, pipeline, batch_users(recommender, users, unknown), seed, observe)
    options = {"pipeline": repr(job.pipeline), "seed": seed, "time": job.time, **_code(job.pipeline)}
    live = recommender.states is not None and recommender.states.changed()
    key = None if observe or live else job_key(job, recommender.about.version, options)
    return write_job(job, _table(recommender, job), out, key, force, progress)


def _code(pipeline: Pipeline) -> dict[str, str]:
    """What the slates were computed by: the package and the plug-ins."""
    return {"package": __version__, "plugins": plugin_sources(pipeline)}


def _job(
    recommender: "Recommender",
    pipeline: Pipeline,
    found: BatchUsers,
    seed: int,
    observe: Observer | None = None,
) -> BatchJob:
    ends = recommender.about.ends
    return BatchJob(
        offline(pipeline),
        found.histories,
        found.users,
        ends,
        seed,
        observe,
        found.version,
        found.states,
        found.live,
    )


def _table(recommender: "Recommender", job: BatchJob) -> SlateTable:
    """The columns of the answer; one request without a history shows whether a stage samples."""
    nobody = Users(pa.nulls(1, pa.string()), np.full(1, UNKNOWN))
    probe = BatchJob(job.pipeline, job.histories, nobody, job.time, job.seed).slate(np.zeros(1, np.int64))
    return SlateTable(
        job.users.ids, recommender.catalog, job.nominators, "propensity" in probe.candidates.columns
    )
