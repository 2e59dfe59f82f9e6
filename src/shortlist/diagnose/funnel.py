"""The metrics of the whole funnel on a sample of users: the same as in `evaluate`, on fewer requests."""

import torch

from shortlist.diagnose.sample import UserSample
from shortlist.evaluate.funnel import FunnelMetrics, batch_funnel, funnel_metrics
from shortlist.evaluate.losses import batch_losses
from shortlist.grammar import Stage, as_pipeline
from shortlist.pipeline import run
from shortlist.progress import Progress, silent, tracked


@torch.no_grad()
def measure_funnel(
    pipeline: Stage, sample: UserSample, slots: int, progress: Progress = silent
) -> FunnelMetrics:
    """Joint recall, utility lost per stage, agreement of stages and reveal ratios of slates of `slots` items."""
    whole, found, first = as_pipeline(pipeline), [], 0
    for batch in tracked(sample.batches, "funnel", progress):
        trace, count = run(whole, batch.query).trace, len(batch.relevant)
        losses = batch_losses(trace, batch.relevant, sample.users[first : first + count])
        found.append(batch_funnel(trace, losses, batch.relevant))
        first += count
    return funnel_metrics(found, slots, sample.seed)
