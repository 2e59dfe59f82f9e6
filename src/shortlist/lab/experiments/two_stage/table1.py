"""Table 1 of the two-stage bounds paper: a ranker that learns from what is retrieved against one that learns from all.

The paper filters wanted items by a retriever that learned from them, and says nothing of spread. Here instances are
flagged by a retriever that did not see their users, every difference has an interval over users, and the questions
around the table are asked too: other negatives, weights instead of a filter, flags in sample, a random subset as
large, and filters so strict that little is left. Beside K = 40, 80, 120 stand K = 1, the retriever alone, and K = N,
the ranker alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.lab.experiments.sweeps import titled, trials_of
from shortlist.lab.experiments.trees.common import Trial
from shortlist.lab.experiments.two_stage.common import SMALL, Arm, Sizes, TwoStages, settings_of
from shortlist.lab.experiments.two_stage.rankers import everywhere, firsts, ranker
from shortlist.lab.experiments.two_stage.table1_claims import Run, claims_of, strict_of
from shortlist.lab.result import result, row, start
from shortlist.pipeline.about import RetrievedTargets
from shortlist.progress import Progress, silent


def arms_of(sizes: Sizes) -> dict[str, Arm]:
    """All ways to teach the ranker, the most important first."""
    low, middle, high = sizes.ks
    few, some = strict_of(sizes)
    return {
        "TS": Arm(),
        f"H-TS {middle}": Arm(middle),
        f"H-TS {low}": Arm(low),
        f"H-TS {high}": Arm(high),
        f"H-TS {few}": Arm(few),
        f"as many by chance as {few}": Arm(few, subset=True),
        "TS, candidates": Arm(negatives="candidates"),
        f"H-TS {middle}, candidates": Arm(middle, "candidates"),
        f"H-TS {middle}, in sample": Arm(middle, flags="in-sample"),
        f"H-TS {some}": Arm(some),
        "TS, both": Arm(negatives="both"),
        f"mixed {middle}": Arm(middle, blend=0.5),
        f"weighted {middle}": Arm(middle, soft=True),
        f"as many by chance as {middle}": Arm(middle, subset=True),
    }


def bounds_table1(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    keep: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """P@1 of two stages for rankers taught in many ways; `only` some of them, to share the work."""
    began, name = start(), titled("bounds-table1", where)
    trials = trials_of(name, where, data, profile, seeds, progress, keep)
    sizes = SMALL if trials[0].ground.quick else Sizes()
    arms = arms_of(sizes)
    if only is not None:
        if wrong := [one for one in only if one not in arms]:
            raise ConfigError(f"{name}: knows no {', '.join(wrong)}; expected some of {', '.join(arms)}")
        arms = {one: arms[one] for one in arms if one in only}
    runs = [_answered(trial, arms, sizes) for trial in trials]
    place = trials[0].ground.name
    rows = [
        *_gains(runs, arms, sizes, place),
        *_quality(runs, arms, sizes, place),
        *_retrieval(runs, sizes, place),
        *_flagged(runs, arms, place),
    ]
    return result(name, profile, seeds, began, rows, claims_of(runs, sizes, place)) | {
        "x": "retrieved items that say which instances count",
        "note": "P@1 counts the first item as right when it is among what the user met in the second half. Intervals "
        "are over the users of all seeds; the second interval, in the notes, is over seeds, whose trainings and users "
        "differ. A difference is called clear when neither contains 0.",
    }


def _answered(trial: Trial, arms: Mapping[str, Arm], sizes: Sizes) -> Run:
    run, stages = Run(trial, sizes), TwoStages(trial, sizes)
    place = f"{trial.ground.name}/two stages"
    run.found, run.about = trial.kept.get(
        f"{place}/retriever/{trial.seed}", partial(_retrieved, stages), settings_of(Arm(), sizes)
    )
    for name, arm in arms.items():
        run.firsts[name], run.told[name] = trial.kept.get(
            f"{place}/{name}/{trial.seed}", partial(_ranked, stages, arm), settings_of(arm, sizes)
        )
    return run


def _retrieved(stages: TwoStages) -> tuple[Tensor, dict[str, Any]]:
    """What test users are offered, and how often instances are retrieved in and out of sample."""
    crossed, within = stages.flags("crossfit"), stages.flags("in-sample")
    told = {
        str(k): {"crossfit": float(crossed.hit(k).mean()), "in-sample": float(within.hit(k).mean())}
        for k in sorted({1, 5, 10, 20, *stages.sizes.ks})
        if k <= stages.most
    }
    about = {"recall": told, "instances": len(stages.rows), "sources": list(crossed.made.sources)}
    return stages.candidates(stages.trial.split.test).to(torch.int32), about


def _ranked(stages: TwoStages, arm: Arm) -> tuple[Tensor, dict[str, Any]]:
    model, told = ranker(stages, arm)
    cases = stages.trial.split.test
    first = firsts(stages, model, cases, stages.candidates(cases), stages.sizes.ks)
    alone = everywhere(stages, model, cases)[:, None]
    advice = _guard(stages.advice(arm)) if arm.k else {}
    return torch.cat([first, alone], dim=1).to(torch.int32), {**told, "guard": advice}


def _guard(retrieved: RetrievedTargets) -> dict[str, float]:
    """The numbers of the guard that the result lists."""
    return {
        "recall": retrieved.recall,
        "dropped_items": retrieved.missing_items,
        "dropped_share": retrieved.missing_share,
    }


def _gains(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """What every filter gains over learning from everything, at each K, by how many retrieved items count."""
    plain = {arm.k: name for name, arm in arms.items() if arm == Arm(arm.k) and arm.k}
    if "TS" not in arms:
        return []
    return [
        row(
            f"K={k} on {place}",
            "H-TS less TS in P@1",
            [float((r.right(name, at) - r.right("TS", at)).mean()) for r in runs],
        )
        | {"x": filtered}
        for at, k in enumerate((*sizes.ks, "N"))
        for filtered, name in sorted(plain.items())
    ]


def _quality(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """A row for every arm and K; K = N is the ranker alone over the catalogue, K = 1 the retriever alone."""
    rows = []
    for single, metric in ((False, "P@1"), (True, "next item first")):
        rows += [
            row(
                f"retriever alone on {place}", f"{metric}, K=1", [float(r.alone(single).mean()) for r in runs]
            )
        ]
        for name in arms:
            for at, k in enumerate((*sizes.ks, "N")):
                values = [float(r.right(name, at, single).mean()) for r in runs]
                rows.append(row(f"{name} on {place}", f"{metric}, K={k}", values))
    return rows


def _retrieval(runs: Sequence[Run], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """What the retriever passes on to test users, and how often training instances are retrieved."""
    rows = []
    for k in sizes.ks:
        sets = [_found(r, k) for r in runs]
        rows.append(
            row(f"retriever on {place}", f"recall of all that is wanted, K={k}", [a for a, _ in sets])
        )
        rows.append(row(f"retriever on {place}", f"next item retrieved, K={k}", [b for _, b in sets]))
    for k in runs[0].about["recall"]:
        for way in ("crossfit", "in-sample"):
            values = [r.about["recall"][k][way] for r in runs]
            rows.append(row(f"flags {way} on {place}", f"training instances retrieved, K={k}", values))
    return rows


def _found(run: Run, k: int) -> tuple[float, float]:
    found, truth = run.found[:, :k].long(), run.truth
    hit = is_in(truth, found)
    return float(hit.sum() / (truth >= 0).sum()), float(hit[:, 0].double().mean())


def _flagged(runs: Sequence[Run], arms: Mapping[str, Arm], place: str) -> list[dict[str, Any]]:
    """How many instances each arm learned from, and how long it took."""
    rows = []
    for name in arms:
        for what in ("instances", "effective", "best", "seconds"):
            rows.append(
                row(f"{name} on {place}", f"training: {what}", [float(r.told[name][what]) for r in runs])
            )
        if arms[name].k:
            for what in ("recall", "dropped_items", "dropped_share"):
                values = [float(r.told[name]["guard"][what]) for r in runs]
                rows.append(row(f"{name} on {place}", f"guard: {what}", values))
    return rows
