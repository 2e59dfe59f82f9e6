"""A pipeline on held-out requests, run as `shortlist evaluate` runs it: in batches, without time limits."""

from collections.abc import Iterator

import torch
from torch import Tensor

from shortlist.data import HeldOut, Query
from shortlist.grammar import Pipeline
from shortlist.metrics.ranking import METRICS
from shortlist.metrics.significance import bootstrap
from shortlist.pipeline import run
from shortlist.pipeline.about import Measured
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent, tracked

CUT = 20  # items of a slate
MEASURED = ("recall", "ndcg")
BATCH = 128
SEED = 0  # of the bootstrap: the default of `shortlist evaluate`


def measure(pipeline: Pipeline, requests: HeldOut, progress: Progress = silent) -> Measured:
    """Recall and NDCG of a pipeline, defined as in `shortlist evaluate`."""
    values = {name: list[Tensor]() for name in MEASURED}
    for query, relevant in request_batches(requests, "measure", progress):
        found = slates(pipeline, query)
        for name in MEASURED:
            values[name].append(METRICS[name](found, relevant, CUT))
    return Measured(
        len(requests), {f"{name}@{CUT}": bootstrap(torch.cat(own), SEED) for name, own in values.items()}
    )


def request_batches(
    requests: HeldOut, task: str, progress: Progress = silent
) -> Iterator[tuple[Query, Tensor]]:
    """Held-out requests in batches, each with its relevant items [B, R]."""
    for start in tracked(range(0, len(requests), BATCH), task, progress):
        part = requests.take(slice(start, start + BATCH))
        yield part.query(width=int(part.history_lengths().max(initial=1))), part.relevant()


@torch.no_grad()
def slates(pipeline: Pipeline, query: Query) -> Tensor:
    """The slates of a batch of requests [B, CUT], -1 = an empty place."""
    return run(resized(offline(pipeline), CUT), query).items
