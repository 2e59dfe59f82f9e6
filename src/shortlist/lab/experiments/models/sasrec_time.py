"""Time to quality: how good SASRec is after so many seconds, on MovieLens-1M, leave-last-out over the whole catalogue.

The clock starts with the first look at the events and runs through training and judgements. The curve is that of the
validation events; the claims are on the test events, of the epoch that the validation events chose.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.baselines import LEAVE_LAST_OUT, SASREC, dataset_of, quick
from shortlist.lab.experiments.models.trials import Course
from shortlist.lab.result import at_least, at_most, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "issue 4"
METRICS = ("recall@10", "ndcg@10")
ALONE = "sasrec, alone on its machine"  # the name its answers are kept by


def sasrec_time(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
) -> dict[str, Any]:
    """One model per seed, nothing else on the machine."""
    began, cache = start(), AnswerCache.open(cache_file)
    dataset = dataset_of(data, profile, "sasrec-time")
    trainer = SASREC if profile == "full" else quick(SASREC)
    found, seconds, curve = [], [], []
    for seed in seeds:
        course = Course(dataset.name, dataset, seed, LEAVE_LAST_OUT, cache, progress)
        found.append(course.scores(ALONE, trainer))
        facts = course.facts(ALONE)
        seconds.append(float(facts["seconds"]))
        curve += [
            row(f"sasrec, seed {seed}", "ndcg@10 of validation events", [value]) | {"x": at}
            for at, value in facts["judged"]
        ]
    values = {metric: [float(one[metric].nanmean()) for one in found] for metric in METRICS}
    rows = [row("sasrec", metric, values[metric]) for metric in METRICS]
    rows += [row("sasrec", "training seconds", seconds), *curve]
    claims = [
        at_least("sasrec, recall@10 on every seed", SOURCE, min(values["recall@10"]), 0.30),
        at_least("sasrec, ndcg@10 on every seed", SOURCE, min(values["ndcg@10"]), 0.175),
        at_most("seconds of training, the longest", SOURCE, max(seconds), 120.0),
    ]
    told = result("sasrec-time", profile, seeds, began, rows, claims)
    return told | {"x": "seconds of training"}
