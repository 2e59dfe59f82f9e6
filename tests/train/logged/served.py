"""A full-stage log that a small pipeline writes while it serves users of the small world."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from shortlist.data import Dataset, Query
from shortlist.data.windows import gather
from shortlist.feedback import (
    FullStageLogger,
    LogSettings,
    RequestMeta,
    Sampling,
    append_events,
    join_feedback,
    request_id,
)
from shortlist.feedback.write.sampling import EVERYTHING
from shortlist.grammar import Pipeline
from shortlist.pipeline import run

MINUTE = 60_000
HEAD = """
pipeline = "popular % 40 + covisit % 60 >> seen >> pre % 30 >> rank % 8"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.seen]
type = "seen"
"""
RECIPE = (
    HEAD
    + """
[stages.pre]
type = "feature-ranker"
[stages.pre.train]
epochs = 2
hidden = [8]
[stages.rank]
type = "mlp-ranker"
[stages.rank.train]
epochs = 2
width = 8
hidden = [8]
"""
)


def liked(items: torch.Tensor) -> torch.Tensor:
    """What users like in this world: items in even rows."""
    return items % 2 == 0


def serve(
    root: Path,
    world: Dataset,
    pipeline: Pipeline,
    users: Sequence[int] = range(200),
    sampling: Sampling = EVERYTHING,
    feedback: bool = True,
    join: bool = True,
    after: int = MINUTE,
    policy: Sequence[int] = (),
) -> Path:
    """Serve each user once, one minute apart, after the last event of the world; all served items are shown."""
    begin = int(world.events.times.max()) + after
    query = queries(world, users, begin)
    times, ids = query.time.tolist(), [request_id(ts, 0, 0) for ts in query.time.tolist()]
    names = world.users.ids.to_pylist()
    with FullStageLogger(root, world.items, world.users, LogSettings(queue=4096), sampling) as log:
        slate = run(pipeline, query)
        assert log.offer(slate.trace, RequestMeta(ids, times, [names[user] for user in users], policy))
    if feedback:
        append_events(root, _events(world, slate.items, ids, times), ingest_ts_ms=times[-1])
    if join:
        join_feedback(root, watermark=times[-1] + 10_000 * MINUTE)
    return root


def queries(world: Dataset, users: Sequence[int], begin: int) -> Query:
    """Requests of users with their whole histories."""
    rows, events = np.asarray(users, np.int64), world.events
    history = gather(events, events.starts[rows], events.starts[rows + 1], 60)
    user, time = torch.from_numpy(rows), begin + MINUTE * torch.arange(len(rows))
    return Query(user, torch.from_numpy(history.astype(np.int64)), time, user.clone())


def _events(world: Dataset, items: torch.Tensor, ids: list[int], times: list[int]) -> dict[str, list[object]]:
    """An impression of every served item, and a play of each liked one."""
    names = world.items.ids.to_pylist()
    rows = [
        (ids[row], names[item], event, times[row] + 1000)
        for row, one in enumerate(items.tolist())
        for item in one
        if item >= 0
        for event in ("impression", "play")
        if event == "impression" or item % 2 == 0
    ]
    request, item, event, time = map(list, zip(*rows, strict=True))
    return {
        "request_id": request,
        "item_id": item,
        "event": event,
        "event_ts_ms": time,
        "value": [1.0] * len(rows),
    }
