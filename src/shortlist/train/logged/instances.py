"""Training instances of retrieval from a full-stage log."""

from shortlist.data import Interactions
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives.full_stage import MAX_WEIGHT, FullStageSettings
from shortlist.train.objectives.instances import InstanceSampler, default_counts
from shortlist.train.objectives.relabel import LADDERS

RETRIEVAL = 1  # the number of the stage


def retrieval_instances(
    settings: FullStageSettings, log: TrainingLog, events: Interactions, batch_size: int, seed: int
) -> InstanceSampler:
    """The lists of logged requests; random negatives are items that the user never interacted with."""
    stages = log.log.n_stages
    counts = settings.counts(RETRIEVAL, stages) or default_counts(
        stages, settings.first_stage(RETRIEVAL, stages)
    )
    following = log.log.next_stage(RETRIEVAL)
    if following is None:
        settings.check_next(RETRIEVAL, stages)
    return InstanceSampler(
        log.log,
        counts,
        LADDERS[settings.ladder](stages),
        batch_size,
        seed,
        exclude=(events.users, events.items),
        ht_weight=settings.ht_weight,
        ht_clip=MAX_WEIGHT,
        by_request=True,
        staged=settings.reads_cuts,
        scores_of=following,
    )
