"""The job of the training benchmark, in a separate process that has few cores and whose peak memory is read."""

import json
import os
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from shortlist.data import Dataset
from shortlist.grammar import Stage
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.simulate.shaped_like import amazon_like
from shortlist.train.auto.plan import Plan, plan_for
from shortlist.train.bundle import train_measured
from shortlist.train.folds import Fold, Folds
from shortlist.train.pipeline import context_of
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.rankers.training_data.out_of_fold import request_batches
from shortlist.train.refit import refit
from shortlist.train.registry import TRAINERS

PROTOCOL = "leave-last-out"
SEQUENCE = ("sasrec", "gru4rec")  # types of sequence models


def job(seed: int, minutes: float, size: str = "full") -> dict[str, Any]:
    """Seconds of `train` without a recipe, and of one fit of each part of the pipeline that it planned."""
    data = replace(amazon_like(seed, size), split_settings={"protocol": PROTOCOL})
    began = time.perf_counter()
    plan, trained = planned_training(data, minutes, seed)
    seconds, peak, report = time.perf_counter() - began, peak_bytes(), trained.about.plan
    assert report is not None
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "events": len(data.events),
        "items": len(data.items),
        "users": len(data.users),
        "pipeline": repr(trained.pipeline),
        "sequence": has_sequence_model(plan.recipe, report.dropped),
        "recall": report.recall,
        "compared": {one.name: one.recall for one in report.compared},
        "parts": part_seconds(plan.recipe, data, seed),
    }


def planned_training(data: Dataset, minutes: float, seed: int) -> tuple[Plan, Recommender]:
    """The steps of `train` without a recipe, and the plan it trained: the saved recipe has only what was kept."""
    split = data.split()
    plan = plan_for(data, split, minutes, seed)
    return plan, refit(train_measured(plan.recipe, data, split, seed, plan=plan), data)


def has_sequence_model(recipe: Recipe, dropped: Collection[str]) -> bool:
    """Whether the pool that was trained has a sequence model: a planned one that was not dropped."""
    return any(one.type in SEQUENCE for name, one in recipe.stages.items() if name not in dropped)


def part_seconds(recipe: Recipe, data: Dataset, seed: int) -> dict[str, float]:
    """One fit of each nominator on the training events, from the start, and one of the ranker on its requests."""
    split, work = data.split(), PipelineTrainer.of(recipe, TYPES, TRAINERS)
    context, stages = context_of(data, split, seed), dict[str, Stage]()
    seconds: dict[str, float] = {}
    for name in work.early:
        began = time.perf_counter()
        stages |= work.fit([name], context)
        seconds[name] = time.perf_counter() - began
    if not work.later:
        return seconds
    past, ((_, requests), *_) = work.out_of_fold_parts(context, split)
    folds = work.nominated(Folds((Fold(stages, tuple(request_batches(requests))),), past))
    began = time.perf_counter()
    work.fit_later(folds, context)
    return {**seconds, "rank": time.perf_counter() - began}


def main(seed: str, minutes: str, size: str, cores: str) -> None:
    """Run the job on some cores and print its result as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    sys.stdout.write(json.dumps(job(int(seed), float(minutes), size)))


if __name__ == "__main__":
    main(*sys.argv[1:])
