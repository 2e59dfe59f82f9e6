"""Time to quality: how good SASRec is after a number of seconds on MovieLens-1M, leave-last-out, whole catalogue.

The clock starts when the events are first read and includes training and validation. The curve is that of the
validation events; the claims are about the test events, with the weights of the best validation epoch.
"""

from collections.abc import Sequence
from pathlib import Path

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.baselines import LEAVE_LAST_OUT, SASREC, dataset_of, quick
from shortlist.lab.experiments.models.trials import ModelTrial
from shortlist.lab.result import Result, Row, at_least, at_most, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "target of this project"
METRICS = ("recall@10", "ndcg@10")
ALONE = "sasrec, alone on its machine"  # its name in the cache


def sasrec_time(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
) -> Result:
    """One model per seed, with nothing else on the machine."""
    began, cache = start(), AnswerCache.open(cache_file)
    dataset = dataset_of(data, profile, "sasrec-time")
    trainer = SASREC if profile == "full" else quick(SASREC)
    found, seconds = [], []
    curve: list[Row] = []
    for seed in seeds:
        trial = ModelTrial(dataset.name, dataset, seed, LEAVE_LAST_OUT, cache, progress)
        found.append(trial.scores(ALONE, trainer))
        facts = trial.facts(ALONE)
        seconds.append(float(facts["seconds"]))
        curve += [
            row(f"sasrec, seed {seed}", "ndcg@10 of validation events", [value], x=at)
            for at, value in facts["curve"]
        ]
    values = {metric: [float(one[metric].nanmean()) for one in found] for metric in METRICS}
    rows = [row("sasrec", metric, values[metric]) for metric in METRICS]
    claims = [
        at_least("sasrec, recall@10 on every seed", SOURCE, min(values["recall@10"]), 0.30),
        at_least("sasrec, ndcg@10 on every seed", SOURCE, min(values["ndcg@10"]), 0.175),
        at_most("seconds of training, the longest", SOURCE, max(seconds), 120.0),
    ]
    return result(
        "sasrec-time",
        profile,
        seeds,
        began,
        [*rows, row("sasrec", "training seconds", seconds), *curve],
        claims,
        x="seconds of training",
        settings=cache.settings,
        training=cache.training,
    )
