"""Table 1 of the two-stage bounds paper: a ranker trained on retrieved targets against one trained on all targets.

The paper filters targets by a retriever that was trained on them, and reports no variance. Here a retriever that did
not see an instance's user flags it, and every difference has an interval over users. More arms answer questions around
the table: other negatives, weights instead of a filter, in-sample flags, a random subset of the same size, and filters
so strict that little is left. K = 1 is the retriever alone, K = N the ranker alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.lab.experiments.sweeps import experiment_name, trials_of
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.rankers import first_items, first_of_catalogue, train_ranker
from shortlist.lab.experiments.two_stage.table1_claims import (
    Run,
    claims_of,
    random_subset,
    strict_filters,
)
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, Sizes, TwoStages
from shortlist.lab.result import Result, Row, result, row, start
from shortlist.pipeline.about import RetrievedTargets
from shortlist.progress import Progress, silent

NOTE = (
    "P@1 counts the first item as correct when it is among the items of the second half of the history. Intervals are "
    "over the users of all seeds; the second interval, in the notes, is over seeds, whose trainings and users differ. "
    "A difference is called clear when neither contains 0. Items that a user interacts with later are never negatives."
)
TRAINING = {  # metrics of the result and the facts they come from
    "training: instances": "instances",
    "training: effective": "effective_share",
    "training: best": "best_epoch",
    "training: seconds": "seconds",
}


def arms_of(sizes: Sizes) -> dict[str, Arm]:
    """All ways to train the ranker, the most important first."""
    low, middle, high = sizes.ks
    few, some = strict_filters(sizes)
    return {
        "TS": Arm(),
        f"H-TS {middle}": Arm(middle),
        f"H-TS {low}": Arm(low),
        f"H-TS {high}": Arm(high),
        f"H-TS {few}": Arm(few),
        random_subset(few): Arm(few, subset=True),
        "TS, candidates": Arm(negatives="candidates"),
        f"H-TS {middle}, candidates": Arm(middle, "candidates"),
        f"H-TS {middle}, in sample": Arm(middle, flags="in-sample"),
        f"H-TS {some}": Arm(some),
        "TS, both": Arm(negatives="both"),
        f"mixed {middle}": Arm(middle, blend=0.5),
        f"weighted {middle}": Arm(middle, soft=True),
        random_subset(middle): Arm(middle, subset=True),
    }


def bounds_table1(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] | None = None,
) -> Result:
    """P@1 of two stages for rankers trained in different ways; `only` some of them, to share the work."""
    began, name = start(), experiment_name("bounds-table1", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    sizes = SMALL if trials[0].data_setup.quick else Sizes()
    arms = _chosen(arms_of(sizes), only, name)
    runs = [_run(trial, arms, sizes) for trial in trials]
    dataset = trials[0].data_setup.name
    rows = [
        *_gains(runs, arms, sizes, dataset),
        *_precision(runs, arms, sizes, dataset),
        *_retrieval(runs, sizes, dataset),
        *_training(runs, arms, dataset),
    ]
    return result(
        name,
        profile,
        seeds,
        began,
        rows,
        claims_of(runs, sizes, dataset),
        x="retrieved items that decide which instances are used",
        note=NOTE,
        settings=trials[0].cache.settings,
        training=trials[0].cache.training,
    )


def _chosen(arms: Mapping[str, Arm], only: Sequence[str] | None, name: str) -> dict[str, Arm]:
    if only is not None and (unknown := [one for one in only if one not in arms]):
        raise ConfigError(f"{name}: unknown arms {', '.join(unknown)}; expected some of {', '.join(arms)}")
    return {arm: each for arm, each in arms.items() if only is None or arm in only}


def _run(trial: Trial, arms: Mapping[str, Arm], sizes: Sizes) -> Run:
    stages, key = TwoStages(trial, sizes), f"{trial.data_setup.name}/two stages"
    candidates, retrieval = trial.cache.get(
        f"{key}/retriever/{trial.seed}", partial(_retrieved, stages), stages.settings(Arm())
    )
    run = Run(trial.relevant, candidates, retrieval)
    for name, arm in arms.items():
        run.first_items[name], run.facts[name] = trial.cache.get(
            f"{key}/{name}/{trial.seed}", partial(_ranked, stages, arm), stages.settings(arm)
        )
    return run


def _retrieved(stages: TwoStages) -> tuple[Tensor, dict[str, Any]]:
    """The candidates of test users, and the share of instances retrieved in and out of sample."""
    crossfit, in_sample = stages.flags("crossfit"), stages.flags("in-sample")
    recall = {
        str(k): {"crossfit": float(crossfit.hit(k).mean()), "in-sample": float(in_sample.hit(k).mean())}
        for k in sorted({1, 5, 10, 20, *stages.sizes.ks})
        if k <= stages.most
    }
    facts = {"recall": recall, "instances": len(stages.rows), "sources": list(crossfit.made.sources)}
    return stages.candidates(stages.trial.split.test).to(torch.int32), facts


def _ranked(stages: TwoStages, arm: Arm) -> tuple[Tensor, dict[str, Any]]:
    """The top items of test users for every K and for the whole catalogue, and facts about the training."""
    trained = train_ranker(stages, arm)
    held_out = stages.trial.split.test
    first = first_items(stages, trained.model, held_out, stages.candidates(held_out), stages.sizes.ks)
    alone = first_of_catalogue(stages, trained.model, held_out)[:, None]
    facts = {
        "seconds": trained.seconds,
        "instances": trained.instances,
        "effective_share": trained.effective_share,
        "clipped_share": trained.clipped_share,
        "best_epoch": trained.history.best_epoch,
        "history": trained.history,
        "guard": _guard(stages.guard(arm)) if arm.k else {},
    }
    return torch.cat([first, alone], dim=1).to(torch.int32), facts


def _guard(retrieved: RetrievedTargets) -> dict[str, float]:
    """The numbers of the guard that the result lists."""
    return {
        "recall": retrieved.recall,
        "dropped_items": retrieved.missing_items,
        "dropped_share": retrieved.missing_share,
    }


def _gains(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, dataset: str) -> list[Row]:
    """The gain of every filter over training on all targets, at each K, by the number of retrieved items."""
    plain = {arm.k: name for name, arm in arms.items() if arm == Arm(arm.k) and arm.k}
    if "TS" not in arms:
        return []
    return [
        row(
            f"K={k} on {dataset}",
            "H-TS less TS in P@1",
            [float((run.hits(name, at) - run.hits("TS", at)).mean()) for run in runs],
            x=filtered,
        )
        for at, k in enumerate((*sizes.ks, "N"))
        for filtered, name in sorted(plain.items())
    ]


def _precision(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, dataset: str) -> list[Row]:
    """A row for every arm and K; K = N is the ranker alone over the catalogue, K = 1 the retriever alone."""
    rows = []
    for next_only, metric in ((False, "P@1"), (True, "next item first")):
        alone = [float(run.retriever_hits(next_only).mean()) for run in runs]
        rows.append(row(f"retriever alone on {dataset}", f"{metric}, K=1", alone))
        for name in arms:
            for at, k in enumerate((*sizes.ks, "N")):
                values = [float(run.hits(name, at, next_only).mean()) for run in runs]
                rows.append(row(f"{name} on {dataset}", f"{metric}, K={k}", values))
    return rows


def _retrieval(runs: Sequence[Run], sizes: Sizes, dataset: str) -> list[Row]:
    """Recall of the retriever on test users, and the share of training instances it retrieves."""
    rows = []
    for k in sizes.ks:
        recalls = [_recall(run, k) for run in runs]
        metrics = (f"recall of all relevant items, K={k}", f"next item retrieved, K={k}")
        for metric, values in zip(metrics, zip(*recalls, strict=True), strict=True):
            rows.append(row(f"retriever on {dataset}", metric, values))
    for k_name in runs[0].retrieval["recall"]:
        for scheme in ("crossfit", "in-sample"):
            values = tuple(run.retrieval["recall"][k_name][scheme] for run in runs)
            metric = f"training instances retrieved, K={k_name}"
            rows.append(row(f"flags {scheme} on {dataset}", metric, values))
    return rows


def _recall(run: Run, k: int) -> tuple[float, float]:
    found, relevant = run.candidates[:, :k].long(), run.relevant
    hit = is_in(relevant, found)
    return float(hit.sum() / (relevant >= 0).sum()), float(hit[:, 0].double().mean())


def _training(runs: Sequence[Run], arms: Mapping[str, Arm], dataset: str) -> list[Row]:
    """The number of instances each arm was trained on, the best epoch, and the seconds it took."""
    rows = []
    for name, arm in arms.items():
        for metric, fact in TRAINING.items():
            values = [float(run.facts[name][fact]) for run in runs]
            rows.append(row(f"{name} on {dataset}", metric, values))
        for fact in ("recall", "dropped_items", "dropped_share") if arm.k else ():
            values = [float(run.facts[name]["guard"][fact]) for run in runs]
            rows.append(row(f"{name} on {dataset}", f"guard: {fact}", values))
    return rows
